package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/agentevent"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/internal/panics"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// session is the id of the one session of an agent.
const session = "agent"

// Options are the initial settings of an [Agent] and what it works with. Stream is required.
type Options struct {
	SystemPrompt  string
	Model         schemas.ModelRef
	ThinkingLevel schemas.ThinkingLevel
	Tools         []tools.Tool
	Messages      schemas.Messages
	SteeringMode  schemas.QueueMode
	FollowUpMode  schemas.QueueMode
	ToolExecution schemas.ExecutionMode
	SessionID     string
	Limits        schemas.Limits

	Stream driver.Model
	Hooks  driver.Hooks
	// PrepareArguments reshapes the raw arguments of a call of the named tool before they are validated; nil leaves them.
	PrepareArguments func(tool string, raw json.RawMessage) (json.RawMessage, error)
	Log              driver.Log   // gets the events; nil keeps none
	Clock            driver.Clock // nil: [driver.SystemClock]
	Logger           *slog.Logger // for what no caller gets as an error, such as the stack of a panic; nil discards
}

// Agent is pi's Agent: a transcript, queues and a loop in this process, without NATS. All methods may be called from
// any goroutine and from listeners, but a listener must not wait for the run that it is called for.
//
// Settings take effect as in pi: system prompt, model, thinking level, tools and tool execution at the next run, queue
// modes at the next poll.
type Agent struct {
	d     *driver.Driver
	clock driver.Clock
	log   *slog.Logger

	mu        sync.Mutex
	settings  Options
	runTools  toolset // of the run under way, as is its session id
	runID     string
	listeners []*agentevent.Listener
	idle      chan struct{} // closed when the run under way has ended; nil without a run
	shown     shownState
	commands  int
	failed    bool    // a listener has failed in this run
	listenErr []error // of listeners, after the run could no longer fail because of them
}

// shownState is the part of an agent's state that follows from the events alone, as in pi's reducer.
type shownState struct {
	streaming bool
	message   schemas.Message
	pending   map[string]bool
}

// New returns an idle agent. It fails if the log refuses the initial settings. The context bounds New only.
func New(ctx context.Context, o Options) (*Agent, error) {
	a := &Agent{settings: o, shown: shownState{pending: make(map[string]bool)}}
	if o.Log == nil {
		o.Log = noLog{}
	}
	if o.Clock == nil {
		o.Clock = driver.SystemClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a.clock, a.log = o.Clock, o.Logger
	a.d = driver.New(driver.Options{
		Deps: driver.Deps{
			Model: addressed{o.Stream, a.address}, Clock: o.Clock, Hooks: o.Hooks, Logger: o.Logger, Source: "/loopbus/agent",
		},
		Log: o.Log, Rules: loop.Rules{IdleQueues: true}, Configure: a.configure, PrepareArguments: o.PrepareArguments,
		Listen: a.listen, Execute: a.execute,
	}, &loop.State{Session: session})
	err := a.command(ctx, &schemas.SetModes{SteeringMode: o.SteeringMode, FollowUpMode: o.FollowUpMode})
	if err == nil && len(o.Messages) > 0 {
		err = a.SetMessages(ctx, o.Messages...)
	}
	if err != nil {
		return nil, fmt.Errorf("new agent: %w", err)
	}
	return a, nil
}

// Prompt starts a run with a user message of the text and the images. It returns when the run has ended, the listeners
// have returned and the events are stored. When ctx is done the run is aborted as by [Agent.Abort].
//
// The error is a [RunError], besides a result, if the run ended in another way than by the model's decision. It is a
// [RejectedError] if no run was started, wrapping [ErrBusy] if one was under way. Errors of the log, and of listeners
// of the run's end, are returned as they are.
func (a *Agent) Prompt(ctx context.Context, text string, images ...schemas.Image) (Result, error) {
	return a.run(ctx, loop.TextBusyPrompt, &schemas.Prompt{Input: schemas.Input{Text: text, Images: images}})
}

// PromptMessages is [Agent.Prompt] with messages of any roles.
func (a *Agent) PromptMessages(ctx context.Context, messages ...schemas.Message) (Result, error) {
	return a.run(ctx, loop.TextBusyPrompt, &schemas.Prompt{Input: schemas.Input{Messages: messages}})
}

// Continue is [Agent.Prompt] without a message. It starts a run from the transcript as it is or, if that ends with a
// reply, from what is queued.
func (a *Agent) Continue(ctx context.Context) (Result, error) {
	return a.run(ctx, loop.TextBusyContinue, &schemas.Continue{})
}

// run accepts the command that starts a run and drives it to its end.
func (a *Agent) run(ctx context.Context, busy string, data schemas.CommandData) (Result, error) {
	if !a.begin() {
		return Result{}, &RejectedError{Kind: data.CommandKind(), Code: schemas.RejectBusy, Reason: busy}
	}
	defer a.end()
	storing := context.WithoutCancel(ctx) // an aborted run is stored like any other
	if err := a.command(storing, data); err != nil {
		return Result{}, err
	}
	a.mu.Lock()
	a.shown.streaming, a.failed, a.listenErr = true, false, nil
	a.mu.Unlock()
	if err := a.d.Run(ctx); err != nil {
		return Result{}, err
	}
	if err := a.d.Flush(storing); err != nil {
		return Result{}, err
	}
	r, err := a.result(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	return r, errors.Join(append([]error{err}, a.listenErr...)...)
}

func (a *Agent) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.idle != nil {
		return false
	}
	a.idle = make(chan struct{})
	return true
}

func (a *Agent) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.idle)
	a.idle, a.shown.streaming = nil, false
	clear(a.shown.pending)
}

// command accepts a command. The error is a [RejectedError] if the command is rejected.
func (a *Agent) command(ctx context.Context, data schemas.CommandData) error {
	a.mu.Lock()
	a.commands++
	id := fmt.Sprintf("a%d", a.commands)
	a.mu.Unlock()
	c := schemas.Command{ID: id, Session: session, Time: a.clock.Now(), Data: data}
	refused, err := a.d.Accept(ctx, c)
	if err == nil && refused != nil {
		err = &RejectedError{Kind: refused.Kind, Code: refused.Code, Reason: refused.Reason}
	}
	return err
}

// Steer queues messages for before the next model call, each as an item of its own. If one is rejected because too many
// are queued, those after it are not queued either.
func (a *Agent) Steer(ctx context.Context, messages ...schemas.Message) error {
	for _, m := range messages {
		if err := a.command(ctx, &schemas.Steer{Input: schemas.Input{Messages: schemas.Messages{m}}}); err != nil {
			return err
		}
	}
	return nil
}

// FollowUp is [Agent.Steer] for when the run would end.
func (a *Agent) FollowUp(ctx context.Context, messages ...schemas.Message) error {
	for _, m := range messages {
		if err := a.command(ctx, &schemas.FollowUp{Input: schemas.Input{Messages: schemas.Messages{m}}}); err != nil {
			return err
		}
	}
	return nil
}

// Abort aborts the run under way, if any. The queues stay as they are.
func (a *Agent) Abort() { a.d.Abort() }

// WaitForIdle returns nil when no run is under way and the listeners have returned, or ctx's error.
func (a *Agent) WaitForIdle(ctx context.Context) error {
	a.mu.Lock()
	idle := a.idle
	a.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reset empties transcript, error and queues. A run under way continues with its own copy of the transcript.
func (a *Agent) Reset(ctx context.Context) error {
	if err := a.d.Append(ctx, &schemas.TranscriptReplaced{ClearQueues: true}, ""); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shown = shownState{pending: make(map[string]bool)}
	return nil
}

// ClearSteeringQueue withdraws what Steer has queued.
func (a *Agent) ClearSteeringQueue(ctx context.Context) error {
	return a.command(ctx, &schemas.ClearQueue{Queue: string(schemas.QueueSteering)})
}

// ClearFollowUpQueue withdraws what FollowUp has queued.
func (a *Agent) ClearFollowUpQueue(ctx context.Context) error {
	return a.command(ctx, &schemas.ClearQueue{Queue: string(schemas.QueueFollowUp)})
}

// ClearAllQueues withdraws everything queued. A prompt that has not begun its run is not queued.
func (a *Agent) ClearAllQueues(ctx context.Context) error {
	if err := a.ClearSteeringQueue(ctx); err != nil {
		return err
	}
	return a.ClearFollowUpQueue(ctx)
}

// HasQueuedMessages reports whether anything is queued.
func (a *Agent) HasQueuedMessages() (queued bool) {
	a.d.View(func(s *loop.State) { queued = s.Queued() })
	return queued
}

// Subscribe adds a listener, which is called with every event after the listeners that subscribed before it.
func (a *Agent) Subscribe(l agentevent.Listener) (unsubscribe func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &l
	a.listeners = append(slices.Clone(a.listeners), p)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.listeners = slices.DeleteFunc(slices.Clone(a.listeners), func(q *agentevent.Listener) bool { return q == p })
	}
}

// listen applies the event to the shown state and then calls the listeners, one after the other.
func (a *Agent) listen(ctx context.Context, e agentevent.Event) error {
	a.mu.Lock()
	a.shown.reduce(e)
	listeners := a.listeners
	a.mu.Unlock()
	for _, l := range listeners {
		if err := panics.Guard("listener", func() error { return (*l)(ctx, e) }); err != nil {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.failed || e.Type == schemas.EventAgentEnd {
				a.listenErr = append(a.listenErr, fmt.Errorf("listener of %s: %w", e.Type, err))
			}
			a.failed = true
			return err
		}
	}
	return nil
}

func (s *shownState) reduce(e agentevent.Event) {
	switch e.Type {
	case schemas.EventMessageStart, schemas.EventMessageUpdate:
		s.message = e.Message
	case schemas.EventMessageEnd, schemas.EventAgentEnd:
		s.message = nil
	case schemas.EventToolExecutionStart:
		s.pending[e.ToolCallID] = true
	case schemas.EventToolExecutionEnd:
		delete(s.pending, e.ToolCallID)
	}
}

// State is a snapshot of an agent. Its messages are shared with the agent; do not change them.
type State struct {
	SystemPrompt     string
	Model            schemas.ModelRef
	ThinkingLevel    schemas.ThinkingLevel
	Tools            []schemas.ToolDefinition
	Messages         schemas.Messages
	IsStreaming      bool
	StreamingMessage schemas.Message // nil if no message is being streamed
	PendingToolCalls []string        // sorted
	ErrorMessage     string
}

// State returns the agent's present state.
func (a *Agent) State() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := State{
		SystemPrompt: a.settings.SystemPrompt, Model: a.settings.Model, ThinkingLevel: a.settings.ThinkingLevel,
		Tools: toolset(a.settings.Tools).definitions(), Messages: schemas.Messages{},
		IsStreaming: a.shown.streaming, StreamingMessage: a.shown.message,
		PendingToolCalls: slices.Sorted(maps.Keys(a.shown.pending)),
	}
	a.d.View(func(s *loop.State) {
		out.ErrorMessage = s.ErrorMessage
		for _, e := range s.Messages {
			out.Messages = append(out.Messages, e.Message.Message)
		}
	})
	return out
}
