package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/agentevent"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// LoopConfig is what [RunLoop] and [ContinueLoop] work with. Stream is required; a nil Emit shows events to nobody.
type LoopConfig struct {
	Model         schemas.ModelRef
	SystemPrompt  string
	Messages      schemas.Messages // the transcript so far; not changed
	Tools         []tools.Tool
	ThinkingLevel schemas.ThinkingLevel
	ToolExecution schemas.ExecutionMode
	SessionID     string
	APIKey        string
	Stream        driver.Model
	Hooks         driver.Hooks
	Emit          agentevent.Listener
	Clock         driver.Clock
	// PrepareArguments is that of [Options].
	PrepareArguments func(tool string, raw json.RawMessage) (json.RawMessage, error)
}

// Errors of [ContinueLoop].
var (
	//lint:ignore ST1005 pi's text
	ErrNoContext = errors.New("Cannot continue: no messages in context")
	//lint:ignore ST1005 pi's text
	ErrFromReply = errors.New(loop.TextFromReply)
)

// RunLoop is pi's bare loop: one run, from the prompts to its end. It returns the messages the run added, prompts
// included. ctx is the abort signal. An error of a hook, the model function or Emit rejects the run after the events so
// far, without turn_end or agent_end. No prompts at all means a run on the transcript as it is.
func RunLoop(ctx context.Context, c LoopConfig, prompts ...schemas.Message) (schemas.Messages, error) {
	return runLoop(ctx, c, schemas.Messages(prompts))
}

// ContinueLoop is [RunLoop] on the transcript as it is. It fails before the first event where there is nothing to
// continue from: [ErrNoContext], [ErrFromReply].
func ContinueLoop(ctx context.Context, c LoopConfig) (schemas.Messages, error) {
	n := len(c.Messages)
	if n == 0 {
		return nil, ErrNoContext
	}
	if c.Messages[n-1].MessageRole() == schemas.RoleAssistant {
		return nil, ErrFromReply
	}
	return runLoop(ctx, c, nil)
}

func runLoop(ctx context.Context, c LoopConfig, prompts schemas.Messages) (added schemas.Messages, err error) {
	set := toolset(c.Tools)
	execute := func(ctx context.Context, req schemas.ToolRequest, update func(schemas.ToolResult)) (schemas.ToolResult,
		bool) {
		return set.execute(ctx, slog.New(slog.DiscardHandler), req, update)
	}
	d := driver.New(driver.Options{
		Deps: driver.Deps{Model: c.Stream, Clock: c.Clock, Hooks: c.Hooks, Source: "/loopbus/loop"},
		Log:  noLog{}, Rules: loop.Rules{IdleQueues: true}, Execute: execute,
		Configure: func(context.Context, string, loop.Settings) (schemas.RunConfig, error) {
			return schemas.RunConfig{Model: c.Model, ThinkingLevel: c.ThinkingLevel, SystemPrompt: c.SystemPrompt,
				Tools: set.definitions(), ToolExecution: c.ToolExecution}, nil
		},
		PrepareArguments: c.PrepareArguments, APIKey: c.APIKey, SessionID: func() string { return c.SessionID },
		FailHard: true,
		Listen: func(ctx context.Context, e agentevent.Event) error {
			if e.Type == schemas.EventAgentEnd {
				added = e.Messages
			}
			if c.Emit == nil {
				return nil
			}
			return c.Emit(ctx, e)
		},
	}, &loop.State{Session: "loop"})
	for _, data := range begin(c, prompts) { // a log in memory refuses nothing
		if err := d.Append(ctx, data, ""); err != nil {
			return nil, err
		}
	}
	// A run that was rejected may have left tools at work: the signal tells them to stop.
	defer func() { _ = d.Wait(context.Background()) }()
	defer d.Abort()
	if err := d.Run(ctx); err != nil {
		return nil, err
	}
	return added, nil
}

// begin is the log of a loop that is about to run: its transcript, hooks drained whole, and its input.
func begin(c LoopConfig, prompts schemas.Messages) []schemas.EventData {
	events := []schemas.EventData{
		accepted("modes", &schemas.SetModes{SteeringMode: schemas.QueueAll, FollowUpMode: schemas.QueueAll},
			schemas.Follow{Type: schemas.EventCommandApplied}),
	}
	if len(c.Messages) > 0 {
		events = append(events, &schemas.TranscriptReplaced{Messages: c.Messages})
	}
	if len(prompts) > 0 {
		return append(events, accepted("prompt", &schemas.Prompt{Input: schemas.Input{Messages: prompts}}))
	}
	return append(events, accepted("continue", &schemas.Continue{}))
}

func accepted(id string, data schemas.CommandData, follows ...schemas.Follow) *schemas.CommandAccepted {
	raw, err := schemas.Marshal(data)
	if err != nil {
		panic("agent: " + err.Error()) // a message that does not encode: a fault of the program that made it
	}
	return &schemas.CommandAccepted{
		CommandID: id, Kind: data.CommandKind(), Queue: schemas.QueuePrompts, Data: raw,
		Follows: append([]schemas.Follow{}, follows...),
	}
}
