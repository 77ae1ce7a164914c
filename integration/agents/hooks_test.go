package agents_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

const minute = 60_000

func asks(refs ...schemas.HookRef) func(h *host.Options) {
	return func(h *host.Options) { h.Defaults.Hooks = refs }
}

func at(hook schemas.HookName, service string) schemas.HookRef {
	return schemas.HookRef{Hook: hook, Service: service, TimeoutMs: minute}
}

// Services decide one after the other. Each receives the changes of the ones before it, and a block is final.
func TestServicesDecideAboutCalls(t *testing.T) {
	t.Parallel()
	first, second := at(schemas.HookBeforeToolCall, "redact"), at(schemas.HookBeforeToolCall, "policy")
	r := start(t, asks(first, second))
	r.service(first, func(req schemas.HookRequest) *schemas.HookAnswer {
		if strings.Contains(string(req.Args), "secret") {
			return &schemas.HookAnswer{Args: raw(map[string]string{"v": "[redacted]"}), Reason: "it named a secret"}
		}
		return &schemas.HookAnswer{}
	})
	r.service(second, func(req schemas.HookRequest) *schemas.HookAnswer {
		if req.ToolName != "note" || req.Session == "" || req.Call == "" || req.RunID == "" || req.TurnID == "" {
			t.Errorf("asked %+v", req)
		}
		if strings.Contains(string(req.Args), "forbidden") {
			return &schemas.HookAnswer{Block: true, Reason: "not that", By: "ann"}
		}
		return &schemas.HookAnswer{}
	})

	log := r.Prompted(t, "s1", `call note {"v":"secret"}`, 1)
	if got := r.executed(); got != `{"v":"[redacted]"}` {
		t.Errorf("executed with %s", got)
	}
	want := &schemas.HookDecision{Hook: schemas.HookBeforeToolCall, Args: raw(map[string]string{"v": "[redacted]"}),
		By: "redact", Reason: "it named a secret"}
	checkDecision(t, log, want)

	log = r.Prompted(t, "s2", `call note {"v":"forbidden"}`, 1)
	if d := cmp.Diff([]string{"not that"}, results(log)); d != "" || strings.Contains(r.executed(), "forbidden") {
		t.Errorf("results (-want +got):\n%s\nexecuted %s", d, r.executed())
	}
	checkDecision(t, log, &schemas.HookDecision{Hook: schemas.HookBeforeToolCall, Block: true, Reason: "not that",
		By: "policy: ann"})

	log = r.Prompted(t, "s3", `call note {"v":"fine"}`, 1)
	checkDecision(t, log, &schemas.HookDecision{Hook: schemas.HookBeforeToolCall, By: "redact, policy"})
	for _, session := range []string{"s1", "s2", "s3"} {
		r.Verify(t, session)
	}
}

func checkDecision(t *testing.T, log []schemas.Event, want *schemas.HookDecision) {
	t.Helper()
	got := decisions(log, want.Hook)
	if len(got) != 1 {
		t.Fatalf("%d decisions of %s, want one", len(got), want.Hook)
	}
	d := *got[0]
	d.Call, d.ToolCallID, d.CommandID, d.MessageID = "", "", "", ""
	if diff := cmp.Diff(want, &d); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
}

// A tool call is blocked if a service does not answer.
func TestNoAnswerBlocksACall(t *testing.T) {
	t.Parallel()
	silent := schemas.HookRef{Hook: schemas.HookBeforeToolCall, Service: "silent", TimeoutMs: 20}
	for _, c := range []struct {
		name, want string
		ref        schemas.HookRef
	}{
		{"nobody listens", "beforeToolCall of policy was not decided: hook agent.hook.beforeToolCall.policy: no service " +
			"listens", at(schemas.HookBeforeToolCall, "policy")},
		{"no answer", "beforeToolCall of silent was not decided: hook agent.hook.beforeToolCall.silent: no answer " +
			"within 20ms", silent},
		{"no name", "beforeToolCall of beforeToolCall was not decided: hook agent.hook.beforeToolCall: no service listens",
			at(schemas.HookBeforeToolCall, "")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, asks(c.ref))
			r.service(silent, func(schemas.HookRequest) *schemas.HookAnswer { return nil })
			log := r.Prompted(t, "s1", `call note {}`, 1)
			if d := cmp.Diff([]string{c.want}, results(log)); d != "" || r.executed() != "" {
				t.Errorf("results (-want +got):\n%s\nexecuted %s", d, r.executed())
			}
			if got := decisions(log, schemas.HookBeforeToolCall); len(got) != 1 || !got[0].Block || len(got[0].Failures) != 1 {
				t.Errorf("decisions %+v", got)
			}
		})
	}
}

// Services replace parts of a result one after the other. A service that does not answer changes nothing.
func TestServicesChangeResults(t *testing.T) {
	t.Parallel()
	gone, mask := at(schemas.HookAfterToolCall, "gone"), at(schemas.HookAfterToolCall, "mask")
	r := start(t, asks(gone, mask))
	r.service(mask, func(req schemas.HookRequest) *schemas.HookAnswer {
		if req.Result == nil || !strings.HasPrefix(req.Result.Content.JoinText(), "noted") ||
			string(req.Args) != `{"v":"1"}` {
			t.Errorf("asked %+v", req)
		}
		content := schemas.Contents{schemas.Text{Text: "masked"}}
		return &schemas.HookAnswer{Content: &content, IsError: ptr(true), Reason: "private"}
	})
	log := r.Prompted(t, "s1", `call note {"v":"1"}`, 1)
	if d := cmp.Diff([]string{"masked"}, results(log)); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
	if ends := system.DataOf[*schemas.ToolExecutionEnd](log); len(ends) != 1 || !ends[0].IsError {
		t.Errorf("ends %+v", ends)
	}
	checkDecision(t, log, &schemas.HookDecision{Hook: schemas.HookAfterToolCall, Changed: []string{"content", "isError"},
		By: "mask", Reason: "private",
		Failures: []schemas.HookFailure{{Service: "gone", Error: "hook agent.hook.afterToolCall.gone: no service listens"}}})
}

// A service can replace an input, or handle it itself, before a run applies it.
func TestServicesScreenInputs(t *testing.T) {
	t.Parallel()
	ref := at(schemas.HookInput, "triage")
	r := start(t, asks(ref))
	r.service(ref, func(req schemas.HookRequest) *schemas.HookAnswer {
		switch text := req.Messages[0].(*schemas.UserMessage).Content.JoinText(); {
		case strings.HasPrefix(text, "faq"):
			return &schemas.HookAnswer{Handled: true, Reason: "answered from the manual"}
		case strings.HasPrefix(text, "shout"):
			return &schemas.HookAnswer{Messages: userText(strings.ToUpper(text))}
		}
		return &schemas.HookAnswer{}
	})
	r.Send(t, "s1", &schemas.Prompt{Input: client.Text("faq: how?")}, client.WithID("p1"))
	log := r.Until(t, "s1", "the outcome of the prompt",
		func(e schemas.Event) bool { return e.Type() == schemas.EventCommandApplied })
	if got := system.DataOf[*schemas.AgentStart](log); len(got) != 0 {
		t.Errorf("a run started: %v", system.TypesOf(log))
	}
	checkDecision(t, log, &schemas.HookDecision{Hook: schemas.HookInput, Handled: true, By: "triage",
		Reason: "answered from the manual"})

	log = r.Prompted(t, "s1", "shout", 1)
	if d := cmp.Diff([]string{"SHOUT"}, system.Said(log)); d != "" {
		t.Errorf("user messages (-want +got):\n%s", d)
	}
	r.EmptyInbox(t)
	r.Verify(t, "s1")
}

// Queued steering is screened before a run applies it.
func TestServicesScreenSteering(t *testing.T) {
	t.Parallel()
	ref := at(schemas.HookInput, "triage")
	hold := at(schemas.HookBeforeToolCall, "hold")
	r := start(t, asks(ref, hold))
	r.service(ref, func(req schemas.HookRequest) *schemas.HookAnswer {
		if text := req.Messages[0].(*schemas.UserMessage).Content.JoinText(); strings.HasPrefix(text, "drop") {
			return &schemas.HookAnswer{Handled: true}
		}
		return &schemas.HookAnswer{}
	})
	r.service(hold, func(schemas.HookRequest) *schemas.HookAnswer { // steering arrives while the tool waits
		r.Send(t, "s1", &schemas.Steer{Input: client.Text("drop this")}, client.WithID("st1"))
		r.Send(t, "s1", &schemas.Steer{Input: client.Text("keep this")}, client.WithID("st2"))
		return &schemas.HookAnswer{}
	})
	r.Prompt(t, "s1", `call note {}`)
	log := r.Until(t, "s1", "the steer to be applied", func(e schemas.Event) bool {
		d, ok := e.Data.(*schemas.CommandApplied)
		return ok && d.CommandID == "st2"
	})
	if d := cmp.Diff([]string{`call note {}`, "keep this"}, system.Said(log)); d != "" {
		t.Errorf("user messages (-want +got):\n%s", d)
	}
}

// A service can set the system prompt of a run and add messages to it.
func TestServicesBeginRuns(t *testing.T) {
	t.Parallel()
	ref := at(schemas.HookBeforeAgentStart, "memory")
	r := start(t, func(h *host.Options) {
		h.Defaults.Hooks, h.Defaults.SystemPrompt = []schemas.HookRef{ref}, "Be kind."
	})
	r.service(ref, func(req schemas.HookRequest) *schemas.HookAnswer {
		return &schemas.HookAnswer{SystemPrompt: ptr(req.SystemPrompt + " Be brief."), Messages: userText("Yesterday: rain.")}
	})
	log := r.Prompted(t, "s1", "hello", 1)
	if d := cmp.Diff([]string{"hello", "Yesterday: rain."}, system.Said(log)); d != "" {
		t.Errorf("user messages (-want +got):\n%s", d)
	}
	if got := r.asked.Requests("s1"); len(got) != 1 || got[0].SystemPrompt != "Be kind. Be brief." ||
		len(got[0].Messages) != 2 {
		t.Errorf("asked %+v", got)
	}
	checkDecision(t, log, &schemas.HookDecision{Hook: schemas.HookBeforeAgentStart, Messages: userText("Yesterday: rain."),
		SystemPrompt: ptr("Be kind. Be brief."), By: "memory"})
	r.Verify(t, "s1")
}

// A service can remove messages from the context of the model. The transcript does not change.
func TestServicesPruneTheContext(t *testing.T) {
	t.Parallel()
	ref, broken := at(schemas.HookContext, "pruner"), at(schemas.HookContext, "gone")
	r := start(t, asks(broken, ref))
	r.service(ref, func(req schemas.HookRequest) *schemas.HookAnswer {
		return &schemas.HookAnswer{Messages: req.Messages[len(req.Messages)-1:]}
	})
	r.Prompted(t, "s1", "one", 1)
	log := r.Prompted(t, "s1", "two", 2)
	if got := r.asked.Requests("s1"); len(got) != 2 || len(got[1].Messages) != 1 {
		t.Errorf("asked %+v", got)
	}
	if d := cmp.Diff([]string{"one", "two"}, system.Said(log)); d != "" {
		t.Errorf("user messages (-want +got):\n%s", d)
	}
	for _, d := range decisions(log, schemas.HookContext) {
		if d.By != "pruner" || !cmp.Equal(d.Changed, []string{"messages"}) || len(d.Failures) != 1 {
			t.Errorf("decision %+v", d)
		}
	}
}

// The log has a message as the services have changed it. Its role, and the call of a result, cannot change.
func TestServicesReplaceMessages(t *testing.T) {
	t.Parallel()
	ref := at(schemas.HookMessageEnd, "dlp")
	r := start(t, asks(ref))
	r.service(ref, func(req schemas.HookRequest) *schemas.HookAnswer {
		switch m := req.Message.Message.(type) {
		case *schemas.AssistantMessage:
			m.Content = append(schemas.Contents{schemas.Text{Text: "[checked]"}}, m.Content...)
			m.Model = "forged"
			return &schemas.HookAnswer{Message: &schemas.AnyMessage{Message: m}}
		case *schemas.ToolResultMessage:
			m.ToolCallID, m.Content = "forged", schemas.Contents{schemas.Text{Text: "clean"}}
			return &schemas.HookAnswer{Message: &schemas.AnyMessage{Message: m}}
		}
		reply := &schemas.AssistantMessage{StopReason: schemas.StopStop}
		return &schemas.HookAnswer{Message: &schemas.AnyMessage{Message: reply}}
	})
	log := r.Prompted(t, "s1", `call note {}`, 1)
	if d := cmp.Diff([]string{`call note {}`}, system.Said(log)); d != "" {
		t.Errorf("user messages (-want +got):\n%s", d)
	}
	for _, text := range system.Replied(log) {
		if !strings.HasPrefix(text, "[checked]") {
			t.Errorf("reply %q", text)
		}
	}
	got := r.asked.Requests("s1")
	last := got[len(got)-1].Messages
	result, ok := last[len(last)-1].(*schemas.ToolResultMessage)
	if !ok || result.Content.JoinText() != "clean" || result.ToolCallID == "forged" {
		t.Errorf("the model was shown %+v", last[len(last)-1])
	}
	d := decisions(log, schemas.HookMessageEnd)
	if len(d) == 0 || len(d[0].Failures) != 1 || !strings.Contains(d[0].Failures[0].Error,
		"role assistant in place of one of role user") {
		t.Errorf("decisions %+v", d)
	}
	r.Verify(t, "s1")
}
