package eventstore_test

import (
	"context"
	"errors"
	"slices"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// goldenFamily is a toolbox with the tool agent, and an outbox that keeps nothing: what comes back is delivered by
// hand.
type goldenFamily struct{ goldenToolbox }

func (f goldenFamily) Definitions(ctx context.Context) ([]schemas.ToolDefinition, error) {
	defs, err := f.goldenToolbox.Definitions(ctx)
	return append(slices.Clone(defs), schemas.ToolDefinition{Name: schemas.ToolAgent}), err
}

func (goldenFamily) Store(context.Context, schemas.Command) error { return nil }

func (goldenFamily) Holds(context.Context, string, schemas.CommandKind) (bool, error) {
	return false, nil
}

func inFamily(o *host.Options) {
	o.Toolbox, o.Outbox = goldenFamily{}, goldenFamily{}
	o.Defaults.Limits = schemas.Limits{MaxTokens: 10_000}
	o.Defaults.Subagents = schemas.SubagentPolicy{MaxDepth: 3}
}

// playSubagents is the log of a sub-agent that has two of its own.
func playSubagents(r *goldenRig) {
	session := r.session
	r.session = "parent"
	r.script = []func(context.Context) *schemas.AssistantMessage{func(context.Context) *schemas.AssistantMessage {
		return golden(schemas.StopToolUse, goldenCall("call_1", "read", `{"path":"a"}`))
	}}
	r.deliver("p0", &schemas.Prompt{Input: schemas.Input{Text: "begin"}})
	req := r.requests[0]
	link := schemas.SubagentLink{Session: "parent", Call: req.Call, Nonce: req.Nonce, Depth: 1, MaxDepth: 3}
	set := schemas.SubagentSettings{Name: "lead", MaxTokens: 5000, MaxCost: 0.5, Tools: []string{"read", "agent"}}
	r.append(&schemas.SubagentStart{Call: req.Call, ToolCallID: "call_1", Session: session, Depth: 1, MaxDepth: 3,
		SubagentSettings: set})

	r.session = session
	r.script = []func(context.Context) *schemas.AssistantMessage{func(context.Context) *schemas.AssistantMessage {
		return golden(schemas.StopToolUse, goldenCall("call_1", "agent", `{"prompt":"look","name":"scout"}`),
			goldenCall("call_2", "agent", `{"prompt":"wait","background":true,"budget":0.25}`),
			goldenCall("call_3", "agent", `{"prompt":"hack","profile":"root"}`))
	}}
	r.deliver(link.PromptID(), &schemas.SubagentPrompt{Parent: link, Text: "lead <them>", SubagentSettings: set})
	result := func(c loop.Child, text string, reason schemas.TerminationReason) {
		res := &schemas.SubagentResult{Call: c.Start.Call, Nonce: c.Nonce, Session: c.Start.Session, Text: text,
			IsError: !reason.Normal(), Reason: reason, Usage: schemas.Usage{Output: 7, TotalTokens: 7}}
		r.deliver(res.ID(session), res)
	}
	children := r.state().Children
	result(children[0], "nothing & nobody", schemas.EndNoToolCalls)
	r.restart()
	r.deliver(link.AbortID(), &schemas.SubagentAbort{Parent: link})
	result(children[1], "stopped", schemas.EndAbort)
}

// append writes an event of the session by hand.
func (r *goldenRig) append(data schemas.EventData) {
	r.t.Helper()
	log, err := r.store.Open(r.t.Context(), r.session)
	if err != nil {
		r.t.Fatal(err)
	}
	e := r.state().Envelope(data)
	e.Time, e.Source = (*goldenClock)(r).Now(), "/loopbus/runner/golden"
	if err := errors.Join(log.Append(r.t.Context(), e), log.Flush(r.t.Context())); err != nil {
		r.t.Fatal(err)
	}
	r.restart()
}
