package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// AgentOptions are what an [Agent] begins with. Stream is required.
type AgentOptions struct {
	SystemPrompt  string
	Model         schemas.ModelRef
	ThinkingLevel schemas.ThinkingLevel
	Tools         []Tool
	Messages      schemas.Messages
	SteeringMode  schemas.QueueMode
	FollowUpMode  schemas.QueueMode
	ToolExecution schemas.ExecutionMode
	SessionID     string
	Limits        schemas.Limits

	Stream Model
	Hooks  Hooks
	Log    Log   // nil: the events are kept nowhere
	Clock  Clock // nil: [SystemClock]
}

// Agent is pi's Agent: a transcript, queues and a loop in this process, without NATS. All methods may be called from
// any goroutine, and from listeners; but a listener must not wait for the run it is told of.
//
// Settings apply as in pi: system prompt, model, thinking level, tools and tool execution from the next run on, queue
// modes from the next poll on.
type Agent struct {
	d *Driver

	mu        sync.Mutex
	settings  AgentOptions
	runTools  toolset // of the run under way, as its session id
	runID     string
	listeners []*Listener
	idle      chan struct{} // closed when the run under way is over; nil without one
	shown     shownState
	commands  int
}

// shownState is what only events tell: pi's reducer (behaviour A2.7).
type shownState struct {
	streaming bool
	message   schemas.Message
	pending   map[string]bool
}

// NewAgent returns an idle agent.
func NewAgent(o AgentOptions) *Agent {
	a := &Agent{settings: o, shown: shownState{pending: make(map[string]bool)}}
	if o.Log == nil {
		o.Log = noLog{}
	}
	tools := &localTools{tools: a.currentTools}
	a.d = New(Options{
		Log: o.Log, Model: o.Stream, Tools: tools, Clock: o.Clock, Hooks: o.Hooks,
		Rules: loop.Rules{IdleQueues: true}, Configure: a.configure, PrepareArguments: a.prepare, Listen: a.listen,
		SessionID: a.sessionID, LocalTools: true, Source: "/loopbus/agent",
	}, &loop.State{Session: "agent"})
	tools.driver = a.d
	a.command(&schemas.SetModes{SteeringMode: o.SteeringMode, FollowUpMode: o.FollowUpMode})
	if len(o.Messages) > 0 {
		a.SetMessages(o.Messages...)
	}
	return a
}

// Prompt starts a run with a user message of the text and the images. It returns when the run is over and the
// listeners have settled, and its events are stored; how the run ended is in the transcript, not in the error, which is
// given only where the run could not start or the log failed. When ctx is done the run is aborted as by [Agent.Abort].
func (a *Agent) Prompt(ctx context.Context, text string, images ...schemas.Image) error {
	return a.prompt(ctx, schemas.Input{Text: text, Images: images})
}

// PromptMessages is [Agent.Prompt] with messages of any roles.
func (a *Agent) PromptMessages(ctx context.Context, messages ...schemas.Message) error {
	return a.prompt(ctx, schemas.Input{Messages: messages})
}

func (a *Agent) prompt(ctx context.Context, in schemas.Input) error {
	if !a.begin() {
		//lint:ignore ST1005 pi's text
		return errors.New(loop.TextBusyPrompt)
	}
	return a.run(ctx, &schemas.Prompt{Input: in})
}

// Continue starts a run from the transcript as it is; where that ends with a reply, from what is queued (behaviour A2.4).
func (a *Agent) Continue(ctx context.Context) error {
	if !a.begin() {
		//lint:ignore ST1005 pi's text
		return errors.New(loop.TextBusyContinue)
	}
	return a.run(ctx, &schemas.Continue{})
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

// run takes in the command that starts a run and drives it to its end.
func (a *Agent) run(ctx context.Context, data schemas.CommandData) error {
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		close(a.idle)
		a.idle, a.shown.streaming = nil, false
		clear(a.shown.pending)
	}()
	if reason := a.refusal(data); reason != "" {
		return errors.New(reason)
	}
	a.d.arm(ctx)
	a.mu.Lock()
	a.shown.streaming = true
	a.mu.Unlock()
	a.command(data)
	if err := a.d.Drive(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return a.d.o.Log.Flush(context.WithoutCancel(ctx))
}

func (a *Agent) refusal(data schemas.CommandData) (reason string) {
	a.d.View(func(s *loop.State) {
		for _, e := range loop.Accept(s, schemas.Command{ID: "?", Data: data}, nil, a.d.o.Rules) {
			if r, ok := e.(*schemas.CommandRejected); ok {
				reason = r.Reason
			}
		}
	})
	return reason
}

// command takes a command in; what the in-memory agent sends is never refused by its log.
func (a *Agent) command(data schemas.CommandData) {
	a.mu.Lock()
	a.commands++
	id := fmt.Sprintf("a%d", a.commands)
	a.mu.Unlock()
	c := schemas.Command{ID: id, Session: a.d.session, Time: a.d.o.Clock.Now(), Data: data}
	if err := a.d.Accept(context.Background(), c); err != nil {
		a.d.o.Logger.Error("command not taken", "kind", data.CommandKind(), "err", err)
	}
}

// Steer queues messages for before the next model call. Each is an item of its own.
func (a *Agent) Steer(messages ...schemas.Message) {
	for _, m := range messages {
		a.command(&schemas.Steer{Input: schemas.Input{Messages: schemas.Messages{m}}})
	}
}

// FollowUp queues messages for when the run would end. Each is an item of its own.
func (a *Agent) FollowUp(messages ...schemas.Message) {
	for _, m := range messages {
		a.command(&schemas.FollowUp{Input: schemas.Input{Messages: schemas.Messages{m}}})
	}
}

// Abort signals the run under way, if any. The queues stay as they are.
func (a *Agent) Abort() { a.d.Abort() }

// WaitForIdle returns when no run is under way and the listeners have settled.
func (a *Agent) WaitForIdle() {
	a.mu.Lock()
	idle := a.idle
	a.mu.Unlock()
	if idle != nil {
		<-idle
	}
}

// Reset empties transcript, error and queues. A run under way goes on with its own copy of the transcript (finding 703).
func (a *Agent) Reset() {
	a.replace(&schemas.TranscriptReplaced{ClearQueues: true})
	a.mu.Lock()
	a.shown = shownState{pending: make(map[string]bool)}
	a.mu.Unlock()
}

func (a *Agent) replace(d *schemas.TranscriptReplaced) {
	if err := a.d.Append(context.Background(), d, ""); err != nil {
		a.d.o.Logger.Error("transcript not replaced", "err", err)
	}
}

// ClearSteeringQueue withdraws what Steer has queued.
func (a *Agent) ClearSteeringQueue() {
	a.command(&schemas.ClearQueue{Queue: string(schemas.QueueSteering)})
}

// ClearFollowUpQueue withdraws what FollowUp has queued.
func (a *Agent) ClearFollowUpQueue() {
	a.command(&schemas.ClearQueue{Queue: string(schemas.QueueFollowUp)})
}

// ClearAllQueues withdraws everything queued.
func (a *Agent) ClearAllQueues() { a.command(&schemas.ClearQueue{}) }

// HasQueuedMessages reports whether anything is queued.
func (a *Agent) HasQueuedMessages() (queued bool) {
	a.d.View(func(s *loop.State) { queued = s.Queued() })
	return queued
}

// Subscribe adds a listener; it is told of every event after those that subscribed before it.
func (a *Agent) Subscribe(l Listener) (unsubscribe func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &l
	a.listeners = append(slices.Clone(a.listeners), p)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.listeners = slices.DeleteFunc(slices.Clone(a.listeners), func(q *Listener) bool { return q == p })
	}
}

// listen reduces the event and then tells the listeners, one after the other.
func (a *Agent) listen(ctx context.Context, e AgentEvent) error {
	a.mu.Lock()
	a.shown.reduce(e)
	listeners := a.listeners
	a.mu.Unlock()
	for _, l := range listeners {
		if err := (*l)(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (s *shownState) reduce(e AgentEvent) {
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

// AgentState is what an agent's state is at one moment. Its messages are shared; do not change them.
type AgentState struct {
	SystemPrompt     string
	Model            schemas.ModelRef
	ThinkingLevel    schemas.ThinkingLevel
	Tools            []schemas.ToolDefinition
	Messages         schemas.Messages
	IsStreaming      bool
	StreamingMessage schemas.Message // nil while nothing is announced
	PendingToolCalls []string        // sorted
	ErrorMessage     string
}

// State returns the agent's state.
func (a *Agent) State() AgentState {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := AgentState{
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
