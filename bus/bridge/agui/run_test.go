package agui

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

func TestMain(m *testing.M) { bustest.Main(m) }

// folded is the projection of a run that has begun its reply m4, on a folded log.
func folded(t *testing.T) (*projection, func(data schemas.EventData) []event, func(...schemas.StreamEvent) []event) {
	t.Helper()
	s := new(loop.State)
	p := newProjection(s, true, map[string]bool{"p1": true})
	take := func(data schemas.EventData) []event {
		t.Helper()
		e := s.Envelope(data)
		e.Session = "s1"
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
		return p.take(client.Item{Event: &e})
	}
	for _, data := range []schemas.EventData{
		&schemas.CommandAccepted{CommandID: "p1", Kind: schemas.CommandPrompt},
		&schemas.AgentStart{Inputs: []string{"p1"}, Config: &schemas.RunConfig{}},
		&schemas.TurnStart{}, &schemas.MessageStart{MessageID: "m4", Role: schemas.RoleAssistant},
	} {
		take(data)
	}
	return p, take, func(parts ...schemas.StreamEvent) []event {
		return p.take(client.Item{Update: &schemas.Update{Session: "s1", Event: 4,
			Data: &schemas.MessageUpdate{MessageID: "m4", AssistantMessageEvents: parts}}})
	}
}

func types(events []event) string {
	var all []string
	for _, e := range events {
		all = append(all, e.Type+strings.TrimSuffix(":"+e.Delta, ":"))
	}
	return strings.Join(all, " ")
}

func text(delta string) schemas.StreamEvent {
	return schemas.StreamEvent{Type: schemas.StreamTextDelta, Delta: delta}
}

// What was not streamed comes with the end of the message; what was streamed and turns out otherwise is replaced.
func TestTheEndOfAReply(t *testing.T) {
	t.Parallel()
	call := schemas.ToolCall{ID: "x", Name: "ls", Arguments: json.RawMessage(`{"a":1}`)}
	end := func(content ...schemas.Content) *schemas.MessageEnd {
		return &schemas.MessageEnd{MessageID: "m4", Message: schemas.AnyMessage{
			Message: &schemas.AssistantMessage{Content: content, StopReason: schemas.StopStop}}}
	}
	for _, c := range []struct {
		name     string
		streamed []schemas.StreamEvent
		end      *schemas.MessageEnd
		want     string
	}{
		{"the rest of the text", []schemas.StreamEvent{text("one ")}, end(schemas.Text{Text: "one two"}),
			"TEXT_MESSAGE_CONTENT:two TEXT_MESSAGE_END"},
		{"all of it", nil, end(schemas.Thinking{Thinking: "hm"}, schemas.Text{Text: "one"}, call),
			"REASONING_START REASONING_MESSAGE_START REASONING_MESSAGE_CONTENT:hm REASONING_MESSAGE_END REASONING_END " +
				"TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT:one TEXT_MESSAGE_END TOOL_CALL_START TOOL_CALL_ARGS:{\"a\":1} " +
				"TOOL_CALL_END"},
		{"another text, of a hook", []schemas.StreamEvent{text("secret")}, end(schemas.Text{Text: "[removed]"}),
			"TEXT_MESSAGE_END MESSAGES_SNAPSHOT"},
		{"two blocks of text", []schemas.StreamEvent{text("one"),
			{Type: schemas.StreamTextDelta, ContentIndex: 1, Delta: "two"}},
			end(schemas.Text{Text: "one"}, schemas.Text{Text: "two"}), "TEXT_MESSAGE_END"},
		{"arguments in another form", []schemas.StreamEvent{{Type: schemas.StreamToolCallStart, ToolCall: &call},
			{Type: schemas.StreamToolCallDelta, Delta: `{ "a": 1 }`}}, end(call), "TOOL_CALL_END"},
		{"half of the arguments", []schemas.StreamEvent{{Type: schemas.StreamToolCallStart, ToolCall: &call},
			{Type: schemas.StreamToolCallDelta, Delta: `{"a`}}, end(call), `TOOL_CALL_ARGS:":1} TOOL_CALL_END`},
		{"a call of another tool", []schemas.StreamEvent{{Type: schemas.StreamToolCallStart,
			ToolCall: &schemas.ToolCall{ID: "x", Name: "rm"}}}, end(call), "TOOL_CALL_END MESSAGES_SNAPSHOT"},
		{"a reply that was cut off", []schemas.StreamEvent{text("one")}, &schemas.MessageEnd{MessageID: "m4",
			Interrupted: true, Message: end(schemas.Text{Text: "one"}).Message}, "TEXT_MESSAGE_END MESSAGES_SNAPSHOT"},
	} {
		p, take, update := folded(t)
		update(c.streamed...)
		if got := types(take(c.end)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if got := types(p.finish()); got != "STEP_FINISHED" {
			t.Errorf("%s: at the end of the run is open: %s", c.name, got)
		}
	}
}

// A runner that stops ends the streams of its clients: they would take a stream that only ends for a run that is over.
func TestAStopIsAnEnd(t *testing.T) {
	t.Parallel()
	conn := bustest.New(t)
	c, err := client.New(conn.NATS(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := New(c, Options{})
	t.Cleanup(b.Close)
	ctx, stop := context.WithCancel(t.Context())
	w := httptest.NewRecorder()
	done := make(chan bool)
	go func() {
		defer close(done)
		b.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/ag-ui", strings.NewReader(
			`{"threadId":"s1","runId":"p1","messages":[{"id":"u","role":"user","content":"hi"}]}`)).WithContext(ctx))
	}()
	bustest.Eventually(t, "the prompt is sent", func() bool { return bustest.Queued(t, conn) == 1 })
	stop()
	<-done
	if got := w.Body.String(); w.Code == http.StatusOK && (!strings.Contains(got, `"RUN_STARTED"`) ||
		!strings.Contains(got, `"type":"RUN_ERROR"`) || !strings.HasSuffix(got, "}\n\n")) {
		t.Errorf("%d %s", w.Code, got)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	conn := bustest.New(t)
	c, err := client.New(conn.NATS(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := New(c, Options{})
	t.Cleanup(b.Close)
	for body, want := range map[string]string{
		`{`:                                 "no input of a run",
		`{"runId":"r"}`:                     "threadId is missing",
		`{"threadId":"s1"}`:                 "runId is missing",
		`{"threadId":"s1","messages":"no"}`: "no input of a run",
		`{"threadId":"s1","runId":"r",` +
			`"messages":[{"id":"u","role":"user","content":7}]}`: "neither text nor parts",
		`{"threadId":"s1","runId":"r",` +
			`"messages":[{"id":"u","role":"user","content":[{"type":"video"}]}]}`: "video",
		`{"threadId":"s1","runId":"r","resume":[{"interruptId":"c1","status":"resolved"}]}`: "no approved",
		`{"threadId":"s1","runId":"r","resume":[{"interruptId":"c1","status":"resolved",` +
			`"payload":{"approved":true,"editedArgs":"v"}}]}`: "no object",
		`{"threadId":"s1","runId":"r","resume":[{"interruptId":"c1","status":"resolved",` +
			`"payload":{"approved":false,"editedArgs":{}}}]}`: "denies the call",
		`{"threadId":"s1","runId":"r","resume":[{"interruptId":"c1","status":"no"}],` +
			`"messages":[{"id":"u","role":"user","content":"x"}]}`: "is not resolved",
	} {
		w := httptest.NewRecorder()
		b.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/ag-ui", strings.NewReader(body)))
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if n := bustest.Queued(t, conn); n != 0 {
		t.Errorf("%d commands were sent", n)
	}
}

// Whoever serves a model, or executes tools, chooses the pieces. Many small ones behind a long text do not cost that
// text each, nor many calls their square.
func TestSmallPiecesOfALongReply(t *testing.T) {
	_, _, say := folded(t)
	long := strings.Repeat("x", 1<<20)
	tool := &schemas.ToolCall{Name: "echo"}
	say(text(long), schemas.StreamEvent{Type: schemas.StreamThinkingDelta, Delta: long},
		schemas.StreamEvent{Type: schemas.StreamToolCallStart, ToolCall: tool},
		schemas.StreamEvent{Type: schemas.StreamToolCallDelta, Delta: long})
	var pieces []schemas.StreamEvent
	for range 500 {
		pieces = append(pieces, schemas.StreamEvent{Type: schemas.StreamToolCallDelta, Delta: "x"})
	}
	for range 500 {
		pieces = append(pieces, text("x"), schemas.StreamEvent{Type: schemas.StreamThinkingDelta, Delta: "x"})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	say(pieces...)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
		t.Errorf("pieces of 1,500 bytes took %d MiB", took>>20)
	}
	pieces = nil
	for range 2 * maxCalls {
		pieces = append(pieces, schemas.StreamEvent{Type: schemas.StreamToolCallStart, ToolCall: tool})
	}
	if got := len(say(pieces...)); got > 2*maxCalls+1 {
		t.Errorf("%d events of %d calls", got, len(pieces))
	}
}
