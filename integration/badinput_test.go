package integration_test

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/providers/rehearsal"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// An invalid command is rejected with the reason, in the log and as a dead letter, and changes nothing.
func TestBadInputIsRefused(t *testing.T) {
	t.Parallel()
	s := system.StartAlone(t, system.Options{Model: &rehearsal.Model{}})
	cloudEvent := func(without string) nats.Header {
		h := nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"c1"}, "ce-source": {"/me"},
			"ce-type": {"dev.loopbus.prompt.v1"}}
		delete(h, without)
		return h
	}
	for _, c := range []struct {
		name, kind, payload string
		code                schemas.RejectCode
		header              nats.Header
	}{
		{"malformed JSON", "prompt", `{"text":"list`, schemas.RejectInvalid, nil},
		{"two JSON values", "prompt", `{"text":"a"}{"text":"b"}`, schemas.RejectInvalid, nil},
		{"a member of a wrong type", "prompt", `{"text":42}`, schemas.RejectInvalid, nil},
		{"a required member missing", "set_model", `{}`, schemas.RejectInvalid, nil},
		{"a list for an object", "set_tools", `["bash"]`, schemas.RejectNotPlain, nil},
		{"a choice there is not", "prompt", `{"text":"a","whenBusy":"never"}`, schemas.RejectInvalid, nil},
		{"nothing said", "prompt", ``, schemas.RejectInvalid, nil},
		{"blank text", "steer", " \n\t ", schemas.RejectInvalid, nil},
		{"not UTF-8", "follow_up", "caf\xe9", schemas.RejectInvalid, nil},
		{"plain text for an abort", "abort", "please", schemas.RejectNotPlain, nil},
		{"an unknown kind", "dance", `{}`, schemas.RejectUnknown, nil},
		{"a kind in upper case", "Prompt", `hello`, schemas.RejectUnknown, nil},
		{"a kind that is not UTF-8", "\xff\xfe", `{}`, schemas.RejectUnknown, nil},
		{"a long kind", strings.Repeat("x", 1000), `{}`, schemas.RejectUnknown, nil},
		{"a CloudEvent without id", "prompt", `{"text":"a"}`, schemas.RejectCloudEvent, cloudEvent("ce-id")},
		{"a CloudEvent without source", "prompt", `{"text":"a"}`, schemas.RejectCloudEvent, cloudEvent("ce-source")},
		{"a CloudEvent without type", "prompt", `{"text":"a"}`, schemas.RejectCloudEvent, cloudEvent("ce-type")},
		{"a structured CloudEvent without source", "prompt",
			`{"specversion":"1.0","id":"c1","type":"dev.loopbus.prompt.v1","data":{"text":"a"}}`, schemas.RejectCloudEvent, nil},
		{"a CloudEvent of another kind", "steer", `{"text":"a"}`, schemas.RejectCloudEvent, cloudEvent("")},
		{"more than the inbox takes", "prompt", strings.Repeat("a", 600<<10), schemas.RejectTooLarge, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			session := "bad-" + strings.Map(letters, c.name)
			msg := &nats.Msg{Subject: "agent.cmd." + session + "." + c.kind, Header: c.header, Data: []byte(c.payload)}
			ack, err := s.Client.JetStream().PublishMsg(t.Context(), msg)
			if err != nil {
				t.Fatal(err)
			}
			log := s.Until(t, session, "the refusal", func(e schemas.Event) bool {
				return e.Type() == schemas.EventCommandRejected
			})
			got := log[0].Data.(*schemas.CommandRejected)
			if got.Code != c.code || got.Reason == "" || got.StreamSeq != ack.Sequence || got.CommandID == "" {
				t.Errorf("rejected with %+v, want code %s and message %d", got, c.code, ack.Sequence)
			}
			refused(t, s, session, 1)
			reason := lastDead(t, s, session).Header.Get(schemas.HeaderDeadReason)
			if !strings.HasPrefix(reason, string(c.code)+": ") {
				t.Errorf("dead letter says %q, want code %s", reason, c.code)
			}
			healthy(t, s, session)
		})
	}
}

func letters(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return '-'
}

// A command to an illegal session id is only a dead letter, because no log can have the rejection.
func TestIllegalSessionsAreDeadLetters(t *testing.T) {
	t.Parallel()
	s := system.StartAlone(t, system.Options{Model: &rehearsal.Model{}})
	ids := []string{"a$b", "caf\u00e9", strings.Repeat("x", 65), "a=b", "\xff"}
	for _, id := range ids {
		s.Publish(t, id, schemas.CommandPrompt, "hello")
	}
	s.EmptyInbox(t)
	if got := s.Messages(t, schemas.StreamDead, "agent.dead.AGENT_CMD._"); got != uint64(len(ids)) {
		t.Errorf("%d dead letters, want %d", got, len(ids))
	}
	if reason := lastDead(t, s, schemas.NoSession).Header.Get(schemas.HeaderDeadReason); !strings.Contains(reason,
		"session id") {
		t.Errorf("the dead letter says %q", reason)
	}
	if got := s.Messages(t, schemas.StreamEvents, ""); got != 0 {
		t.Errorf("%d events were written", got)
	}
	healthy(t, s, "good")
}

// refused waits until the inbox is empty and checks that the session has n rejections in its log and n dead letters,
// and no other events.
func refused(t *testing.T, s *system.System, session string, n int) {
	t.Helper()
	s.EmptyInbox(t)
	log := s.LogOf(t, session)
	if got := len(system.DataOf[*schemas.CommandRejected](log)); got != n || len(log) != n {
		t.Errorf("session %s: %d rejections among %d events, want %d and no other events", session, got, len(log), n)
	}
	if got := s.Messages(t, schemas.StreamDead, s.Client.Subjects().Dead(schemas.StreamCommands,
		session)); got != uint64(n) {
		t.Errorf("session %s: %d dead letters, want %d", session, got, n)
	}
	state := loop.State{Session: session}
	for _, e := range log {
		if err := state.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	if state.Run != nil || state.Queued() || len(state.Prompts)+len(state.Messages)+state.Runs != 0 {
		t.Errorf("session %s has changed: %+v", session, state)
	}
}

// healthy runs a valid prompt in a session that has had no run, and verifies its log.
func healthy(t *testing.T, s *system.System, session string) {
	t.Helper()
	log := s.Prompted(t, session, "ls", 1)
	if got := system.Reasons(log); !slices.Equal(got, []schemas.TerminationReason{schemas.EndNoToolCalls}) {
		t.Errorf("session %s: the valid prompt ended with %v", session, got)
	}
	s.EmptyInbox(t)
	s.Verify(t, session)
}

func lastDead(t *testing.T, s *system.System, session string) *nats.Msg {
	t.Helper()
	stream, err := s.Client.JetStream().Stream(t.Context(), schemas.StreamDead)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(t.Context(), s.Client.Subjects().Dead(schemas.StreamCommands, session))
	if err != nil {
		t.Fatal(err)
	}
	return &nats.Msg{Header: msg.Header, Data: msg.Data}
}

// panicking is a model that panics if the last user message asks for it.
type panicking struct{ driver.Model }

func (p panicking) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	if last, ok := req.Messages[len(req.Messages)-1].(*schemas.UserMessage); ok && last.Content.JoinText() == "panic" {
		panic("model: nil map")
	}
	return p.Model.Stream(ctx, req)
}

func TestPanicOfAProviderEndsTheRun(t *testing.T) {
	t.Parallel()
	s := system.StartAlone(t, system.Options{Model: panicking{&rehearsal.Model{}}})
	end := system.DataOf[*schemas.AgentEnd](s.Prompted(t, "s1", "panic", 1))[0]
	if end.TerminationReason != schemas.EndError || !strings.Contains(end.ErrorMessage, "nil map") {
		t.Errorf("the run ended with %s, %q", end.TerminationReason, end.ErrorMessage)
	}
	log := s.Prompted(t, "s1", "hello", 2)
	if got := system.Reasons(log); got[1] != schemas.EndNoToolCalls {
		t.Errorf("the next run ended with %s", got[1])
	}
	s.EmptyInbox(t)
	s.Verify(t, "s1")
}

func TestPanicOfAToolIsItsResult(t *testing.T) {
	t.Parallel()
	broken := tools.Tool{
		ToolDefinition: schemas.ToolDefinition{Name: "broken"},
		Execute: func(context.Context, tools.Call) (schemas.ToolResult, error) {
			panic("tool: nil map")
		},
	}
	model := scripted.New(scripted.Calls("", schemas.ToolCall{Name: "broken"}, schemas.ToolCall{Name: "echo"}),
		scripted.Text("done"))
	s := system.StartAlone(t, system.Options{Model: model, Tools: []tools.Tool{broken}})
	log := s.Prompted(t, "s1", "go", 1)
	for _, end := range system.DataOf[*schemas.ToolExecutionEnd](log) {
		if text := end.Result.Content.JoinText(); end.IsError != (end.ToolName == "broken") || end.IsError &&
			!strings.Contains(text, "nil map") {
			t.Errorf("%s: error %v, %q", end.ToolName, end.IsError, text)
		}
	}
	if got := system.Reasons(log); got[0] != schemas.EndNoToolCalls {
		t.Errorf("the run ended with %s", got[0])
	}
	s.EmptyInbox(t)
	s.Verify(t, "s1")
}

// A model may write arguments that JSON parsers read differently, or barely accept. Each call has its result, the run
// continues, and the log verifies.
func TestOddArgumentsAreStoredAndVerify(t *testing.T) {
	t.Parallel()
	nested := func(levels int) string {
		return `{"w":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + `}`
	}
	odd := []struct{ args, want string }{
		{`{"v":"a","v":"b"}`, `{"v":"b"}`},
		{`{"w":1e999}`, "a number is out of range"},
		{nested(300), "nested more than 256 deep"},
		{nested(2000), "nested deeper than 1000"},
		{`{"w":{"a":1,"a":2}}`, `{"w":{"a":2}}`},
	}
	var calls []schemas.ToolCall
	for _, o := range odd {
		calls = append(calls, schemas.ToolCall{Name: "echo", Arguments: json.RawMessage(o.args)})
	}
	s := system.StartAlone(t, system.Options{Model: scripted.New(scripted.Calls("", calls...), scripted.Text("done"))})
	log := s.Prompted(t, "s1", "go", 1)
	results := map[schemas.CallKey]string{}
	for _, end := range system.DataOf[*schemas.ToolExecutionEnd](log) {
		results[end.Call] = end.Result.Content.JoinText()
	}
	n := 0
	for _, e := range log {
		if e.Type() == schemas.EventToolExecutionStart {
			if got := results[schemas.NewCallKey(e.Seq)]; !strings.Contains(got, odd[n].want) {
				t.Errorf("the call with %.30s has the result %.100q, want %q", odd[n].args, got, odd[n].want)
			}
			n++
		}
	}
	if n != len(odd) || len(results) != n {
		t.Errorf("%d results of %d calls", len(results), n)
	}
	if got := system.Reasons(log); got[0] != schemas.EndNoToolCalls {
		t.Errorf("the run ended with %s", got[0])
	}
	s.EmptyInbox(t)
	s.Verify(t, "s1")
}
