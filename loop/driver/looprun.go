package driver

import (
	"context"
	"errors"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// LoopConfig is what [RunLoop] and [ContinueLoop] work with. Stream is required; a nil Emit shows events to nobody.
type LoopConfig struct {
	Model         schemas.ModelRef
	SystemPrompt  string
	Messages      schemas.Messages // the transcript so far; not changed
	Tools         []Tool
	ThinkingLevel schemas.ThinkingLevel
	ToolExecution schemas.ExecutionMode
	SessionID     string
	APIKey        string
	Stream        Model
	Hooks         Hooks
	Emit          Listener
	Clock         Clock
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
	tools := &localTools{tools: func() toolset { return set }}
	d := New(Options{
		Log: noLog{}, Model: c.Stream, Tools: tools, Clock: c.Clock, Hooks: c.Hooks, Rules: loop.Rules{IdleQueues: true},
		Configure: func(context.Context, *loop.State) (schemas.RunConfig, error) {
			return schemas.RunConfig{Model: c.Model, ThinkingLevel: c.ThinkingLevel, SystemPrompt: c.SystemPrompt,
				Tools: set.definitions(), ToolExecution: c.ToolExecution}, nil
		},
		PrepareArguments: set.prepare, APIKey: c.APIKey, SessionID: func() string { return c.SessionID },
		LocalTools: true, FailHard: true, Source: "/loopbus/loop",
		Listen: func(ctx context.Context, e AgentEvent) error {
			if e.Type == schemas.EventAgentEnd {
				added = e.Messages
			}
			if c.Emit == nil {
				return nil
			}
			return c.Emit(ctx, e)
		},
	}, &loop.State{Session: "loop"})
	tools.driver = d
	for _, data := range begin(c, prompts) { // a log in memory refuses nothing
		if err := d.Append(ctx, data, ""); err != nil {
			return nil, err
		}
	}
	d.arm(ctx)
	if err := d.Drive(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	return added, nil
}

// begin is the log of a loop that is about to run: its transcript, hooks drained whole, and its input.
func begin(c LoopConfig, prompts schemas.Messages) []schemas.EventData {
	events := []schemas.EventData{
		accepted("modes", &schemas.SetModes{SteeringMode: schemas.QueueAll, FollowUpMode: schemas.QueueAll}),
	}
	if len(c.Messages) > 0 {
		events = append(events, &schemas.TranscriptReplaced{Messages: c.Messages})
	}
	if len(prompts) > 0 {
		return append(events, accepted("prompt", &schemas.Prompt{Input: schemas.Input{Messages: prompts}}))
	}
	return append(events, accepted("continue", &schemas.Continue{}))
}

func accepted(id string, data schemas.CommandData) *schemas.CommandAccepted {
	raw, err := schemas.Marshal(data)
	if err != nil {
		panic("driver: " + err.Error()) // a message that does not encode: a fault of the program that made it
	}
	return &schemas.CommandAccepted{CommandID: id, Kind: data.CommandKind(), Queue: schemas.QueuePrompts, Data: raw}
}
