package agent

import (
	"cmp"
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

// LoopConfig configures [RunLoop] and [ContinueLoop]. Stream is required; Emit, if not nil, is called with every event.
type LoopConfig struct {
	Model         schemas.ModelRef
	SystemPrompt  string
	Messages      schemas.Messages // the transcript so far; it is not changed
	Tools         []tools.Tool
	ThinkingLevel schemas.ThinkingLevel
	ToolExecution schemas.ExecutionMode
	SessionID     string
	APIKey        string // for requests that the hook GetAPIKey returns no key for
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

// RunLoop is pi's bare loop: one run, from the prompts to its end. It returns the messages that the run added,
// including the prompts. The context is the abort signal. An error of a hook, the model function or Emit ends the run
// at once, without turn_end or agent_end. Without prompts the run works on the transcript as it is.
func RunLoop(ctx context.Context, c LoopConfig, prompts ...schemas.Message) (schemas.Messages, error) {
	return runLoop(ctx, c, schemas.Messages(prompts))
}

// ContinueLoop is [RunLoop] on the transcript as it is. If there is nothing to continue from it fails before the first
// event, with [ErrNoContext] or [ErrFromReply].
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
	model := addressed{c.Stream, func(req *schemas.ModelRequest) {
		req.SessionID, req.APIKey = c.SessionID, cmp.Or(req.APIKey, c.APIKey)
	}}
	d := driver.New(driver.Options{
		Deps: driver.Deps{Model: model, Clock: c.Clock, Hooks: c.Hooks, Source: "/loopbus/loop"},
		Log:  noLog{}, Rules: loop.Rules{IdleQueues: true}, Execute: execute,
		Configure: func(context.Context, string, loop.Settings) (schemas.RunConfig, error) {
			return schemas.RunConfig{Model: c.Model, ThinkingLevel: c.ThinkingLevel, SystemPrompt: c.SystemPrompt,
				Tools: set.definitions(), ToolExecution: c.ToolExecution}, nil
		},
		PrepareArguments: c.PrepareArguments, FailHard: true,
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
	// A run that failed may have left tools running: the signal stops them.
	defer func() { _ = d.Wait(context.Background()) }()
	defer d.Abort()
	if err := d.Run(ctx); err != nil {
		return nil, err
	}
	return added, nil
}

// begin returns the initial log of a loop: its transcript, hooks that empty their queue in one poll, and its input.
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
		panic("agent: " + err.Error()) // a message that does not encode: a fault of the calling program
	}
	return &schemas.CommandAccepted{
		CommandID: id, Kind: data.CommandKind(), Queue: schemas.QueuePrompts, Data: raw,
		Follows: append([]schemas.Follow{}, follows...),
	}
}
