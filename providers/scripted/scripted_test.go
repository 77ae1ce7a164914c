package scripted_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var model = schemas.ModelRef{API: "scripted", Provider: "scripted", ID: "scripted-1"}

func user(text string) schemas.Message {
	return &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: text}}}
}

func reply(stop schemas.StopReason) schemas.Message {
	return &schemas.AssistantMessage{StopReason: stop}
}

// play returns the events of one call.
func play(t testing.TB, m *scripted.Model, messages ...schemas.Message) []schemas.StreamEvent {
	t.Helper()
	var events []schemas.StreamEvent
	for e, err := range m.Stream(t.Context(), schemas.ModelRequest{Model: model, Messages: messages}) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	if len(events) == 0 || !events[len(events)-1].Terminal() {
		t.Fatalf("no end: %v", events)
	}
	return events
}

func final(events []schemas.StreamEvent) *schemas.AssistantMessage {
	return events[len(events)-1].Message
}

func TestDeltasAreTheFinalMessage(t *testing.T) {
	args := json.RawMessage(`{"path": "a/b.go",  "é": [1, 2, 3]}`)
	m := scripted.New(scripted.Response{Message: schemas.AssistantMessage{Content: schemas.Contents{
		schemas.Thinking{Thinking: "Let me think about this for a while."},
		schemas.Text{Text: "Übung macht den Meister. 😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀"},
		schemas.ToolCall{Name: "read", Arguments: args},
		schemas.ToolCall{ID: "mine", Name: "ls"},
	}}})
	events := play(t, m, user("go"))
	joined := map[int]string{}
	ended := schemas.Contents{nil, nil, nil, nil}
	for _, e := range events {
		switch e.Type {
		case schemas.StreamTextDelta, schemas.StreamThinkingDelta, schemas.StreamToolCallDelta:
			joined[e.ContentIndex] += e.Delta
		case schemas.StreamTextEnd:
			ended[e.ContentIndex] = schemas.Text{Text: e.Content}
		case schemas.StreamThinkingEnd:
			ended[e.ContentIndex] = schemas.Thinking{Thinking: e.Content}
		case schemas.StreamToolCallEnd:
			ended[e.ContentIndex] = *e.ToolCall
		}
	}
	got := final(events)
	if d := cmp.Diff(got.Content, ended); d != "" {
		t.Errorf("the ends differ from the message (-message +ends):\n%s", d)
	}
	for i, want := range []string{
		got.Content[0].(schemas.Thinking).Thinking, got.Content[1].(schemas.Text).Text, string(args), "{}",
	} {
		if joined[i] != want {
			t.Errorf("block %d: deltas %q, want %q", i, joined[i], want)
		}
	}
	if got.StopReason != schemas.StopToolUse || got.Model != model.ID || got.Timestamp == 0 {
		t.Errorf("message %+v", got)
	}
	if id := got.Content[2].(schemas.ToolCall).ID; id != "call_1_3" {
		t.Errorf("id %q", id)
	}
	if first := events[0]; first.Type != schemas.StreamStart || len(first.Message.Content) != 0 ||
		first.Message.Provider != "scripted" {
		t.Errorf("start %+v", first)
	}
}

func TestTheTranscriptChoosesTheResponse(t *testing.T) {
	m := scripted.New(scripted.Text("one"), scripted.Text("two"))
	for name, tt := range map[string]struct {
		messages []schemas.Message
		want     string
	}{
		"first":  {[]schemas.Message{user("a")}, "one"},
		"second": {[]schemas.Message{user("a"), reply(schemas.StopStop)}, "two"},
		"failed replies count not": {[]schemas.Message{user("a"), reply(schemas.StopError), user("b"),
			reply(schemas.StopAborted)}, "one"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 3 { // however often
				if got := final(play(t, m, tt.messages...)).Content.JoinText(); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
}

func TestAfterTheLastResponse(t *testing.T) {
	used := []schemas.Message{user("a"), reply(schemas.StopStop), reply(schemas.StopToolUse), reply(schemas.StopLength)}
	got := play(t, scripted.New(scripted.Text("one"), scripted.Text("two")), used...)
	if len(got) != 1 || got[0].Type != schemas.StreamError || got[0].Reason != schemas.StopError ||
		final(got).ErrorMessage != scripted.TextExhausted {
		t.Errorf("got %+v", got)
	}
	looping, err := scripted.NewScripts(scripted.Options{}, scripted.Script{
		Responses: []scripted.Response{scripted.Text("one"), scripted.Text("two")}, Loop: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := final(play(t, looping, used...)).Content.JoinText(); got != "two" {
		t.Errorf("the loop gave %q", got)
	}
}

func TestTheLastUserMessageChoosesTheScript(t *testing.T) {
	m, err := scripted.NewScripts(scripted.Options{},
		scripted.Script{Match: regexp.MustCompile(`(?i)weather`),
			Responses: []scripted.Response{scripted.Text("sun"), scripted.Text("rain")}},
		scripted.Script{Match: regexp.MustCompile(`^time$`), Responses: []scripted.Response{scripted.Text("noon")}},
	)
	if err != nil {
		t.Fatal(err)
	}
	history := []schemas.Message{user("time"), reply(schemas.StopStop), user("The Weather?")}
	if got := final(play(t, m, history...)).Content.JoinText(); got != "sun" {
		t.Errorf("got %q", got)
	}
	if got := final(play(t, m, append(history, reply(schemas.StopStop))...)).Content.JoinText(); got != "rain" {
		t.Errorf("got %q", got)
	}
	if got := final(play(t, m, user("other"))); got.ErrorMessage != scripted.TextNoMatch {
		t.Errorf("got %+v", got)
	}
}

func TestGeneratedIDsDifferAlongASession(t *testing.T) {
	m, err := scripted.NewScripts(scripted.Options{}, scripted.Script{
		Responses: []scripted.Response{scripted.Calls("", schemas.ToolCall{Name: "ls"}, schemas.ToolCall{Name: "ls"})},
		Loop:      true,
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	transcript := []schemas.Message{user("go")}
	for range 3 {
		got := final(play(t, m, transcript...))
		for _, call := range got.Content.ToolCalls() {
			if seen[call.ID] {
				t.Errorf("id %q again", call.ID)
			}
			seen[call.ID] = true
		}
		transcript = append(transcript, got)
	}
	if !seen["call_3_2"] || len(seen) != 6 {
		t.Errorf("ids %v", seen)
	}
}

func TestAbortKeepsStreamedContent(t *testing.T) {
	response := scripted.Calls("0123456789", schemas.ToolCall{ID: "x", Name: "ls"}, schemas.ToolCall{ID: "y", Name: "ls"})
	m, err := scripted.NewScripts(scripted.Options{ChunkSize: 4},
		scripted.Script{Responses: []scripted.Response{response}})
	if err != nil {
		t.Fatal(err)
	}
	whole := play(t, m, user("go"))
	for stop := range len(whole) - 1 { // after each event but the last
		ctx, cancel := context.WithCancel(t.Context())
		var events []schemas.StreamEvent
		for e := range m.Stream(ctx, schemas.ModelRequest{Model: model}) {
			if events = append(events, e); len(events) == stop+1 {
				cancel()
			}
		}
		cancel()
		if len(events) != stop+2 {
			t.Fatalf("stopped after %d: %d events", stop, len(events))
		}
		e := events[len(events)-1]
		if e.Type != schemas.StreamError || e.Reason != schemas.StopAborted || e.Message.StopReason != schemas.StopAborted ||
			e.Message.ErrorMessage != "Request was aborted" {
			t.Errorf("stopped after %d: %+v", stop, e)
		}
		if d := cmp.Diff(shown(events[:stop+1]), e.Message.Content); d != "" {
			t.Errorf("stopped after %d (-want +got):\n%s", stop, d)
		}
	}
}

// shown returns the content that the deltas and the ends of calls add up to.
func shown(events []schemas.StreamEvent) schemas.Contents {
	content := schemas.Contents{}
	text := ""
	for _, e := range events {
		switch e.Type {
		case schemas.StreamTextDelta:
			text += e.Delta
			content = schemas.Contents{schemas.Text{Text: text}}
		case schemas.StreamToolCallEnd:
			content = append(content, *e.ToolCall)
		}
	}
	return content
}

func TestAbortEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := scripted.New(scripted.Response{
			Events: []scripted.Event{
				{StreamEvent: schemas.StreamEvent{Type: schemas.StreamStart}}, {Delay: time.Hour},
				{StreamEvent: schemas.StreamEvent{Type: schemas.StreamDone}},
			},
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		var last schemas.StreamEvent
		for e := range m.Stream(ctx, schemas.ModelRequest{}) {
			last = e
		}
		if last.Reason != schemas.StopAborted || time.Since(began) != time.Minute {
			t.Errorf("%+v after %s", last, time.Since(began))
		}
	})
}

func TestReaderMayStop(t *testing.T) {
	m := scripted.New(scripted.Text(strings.Repeat("word ", 100)))
	n := 0
	for range m.Stream(t.Context(), schemas.ModelRequest{}) {
		if n++; n == 3 {
			break // to yield after this is a panic
		}
	}
	if n != 3 {
		t.Errorf("%d events of a hundred words", n)
	}
}

func TestMessagesAreFresh(t *testing.T) {
	m := scripted.New(scripted.Text("one"))
	first := final(play(t, m, user("a")))
	first.Content[0] = schemas.Text{Text: "changed"}
	if got := final(play(t, m, user("a"))).Content.JoinText(); got != "one" {
		t.Errorf("got %q", got)
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script.json")
	script := `{"chunkSize": 3, "scripts": [
		{"match": "^hi", "loop": true, "responses": [{"text": "hello"}]},
		{"responses": [
			{"thinking": "hm", "text": "look", "toolCalls": [{"name": "read", "arguments": {"path": "x"}}]},
			{"events": [{"type": "start"}, {"delayMs": 0}, {"type": "text_start", "contentIndex": 0},
				{"type": "text_delta", "contentIndex": 0, "delta": "done"},
				{"type": "text_end", "contentIndex": 0}, {"type": "done"}],
			 "message": {"role": "assistant", "content": [{"type": "text", "text": "done"}],
				"stopReason": "length", "usage": {"output": 7}}},
			{"message": {"content": [], "stopReason": "error", "errorMessage": "overloaded"}}
		]}]}`
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := scripted.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := play(t, m, user("hi")); len(got) != 6 || got[2].Delta != "hel" || got[3].Delta != "lo" {
		t.Errorf("hi: %+v", got)
	}
	first := final(play(t, m, user("go")))
	if len(first.Content) != 3 || first.StopReason != schemas.StopToolUse {
		t.Errorf("first: %+v", first)
	}
	second := play(t, m, user("go"), reply(schemas.StopToolUse))
	if len(second) != 5 || second[3].Content != "done" || second[4].Reason != schemas.StopLength ||
		final(second).Usage.Output != 7 {
		t.Errorf("second: %+v", second)
	}
	third := play(t, m, user("go"), reply(schemas.StopToolUse), reply(schemas.StopLength))
	if final(third).ErrorMessage != "overloaded" || third[len(third)-1].Type != schemas.StreamError {
		t.Errorf("third: %+v", third)
	}
}

func TestBrokenScripts(t *testing.T) {
	for name, tt := range map[string]struct{ script, want string }{
		"no JSON":        {`[{"text": "a"}`, "EOF"},
		"nothing":        {`{}`, "responses or scripts"},
		"both":           {`{"responses": [], "scripts": []}`, "responses or scripts"},
		"unknown member": {`{"response": []}`, `unknown field "response"`},
		"trailing":       {`[] []`, "follows"},
		"empty response": {`[{"text": "a"}, {}]`, "response 2: no message"},
		"both forms":     {`[{"text": "a", "message": {}}]`, "response 1: want either"},
		"no end": {`[{"events": [{"type": "start"}], "message": {}}]`,
			`response 1: event 1: "start" is the last event`},
		"early end": {`[{"events": [{"type": "done"}, {"type": "done"}], "message": {}}]`,
			"event 1: done is not the last"},
		"no events": {`[{"events": [], "message": {}}]`, "no events"},
		"unknown event": {`[{"events": [{"type": "text"}, {"type": "done"}], "message": {}}]`,
			`event 1: schemas: unknown stream event type "text"`},
		"no event":        {`[{"events": [{}, {"type": "done"}], "message": {}}]`, "event 1: neither type nor delayMs"},
		"negative delay":  {`[{"events": [{"delayMs": -1}, {"type": "done"}], "message": {}}]`, "negative delay"},
		"stop reason":     {`[{"message": {"stopReason": "tired"}}]`, `unknown stop reason "tired"`},
		"nameless call":   {`[{"toolCalls": [{"arguments": {}}]}]`, "without a name"},
		"arguments":       {`[{"toolCalls": [{"name": "f", "arguments": [1]}]}]`, "arguments of f"},
		"second script":   {`{"scripts": [{"responses": []}, {"responses": [{}]}]}`, "script 2, response 1"},
		"broken match":    {`{"scripts": [{"match": "(", "responses": []}]}`, "script 1: match"},
		"misplaced loop":  {`{"loop": true, "scripts": []}`, "loop belongs"},
		"negative chunks": {`{"chunkSize": -1, "responses": []}`, "must not be negative"},
		"unknown content": {`[{"message": {"content": [{"type": "smell"}]}}]`, "smell"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "script.json")
			if err := os.WriteFile(path, []byte(tt.script), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := scripted.Load(path)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := scripted.Load(filepath.Join(t.TempDir(), "none.json")); err == nil {
		t.Error("a missing file is no error")
	}
}

func BenchmarkStream(b *testing.B) {
	m := scripted.New(scripted.Text(strings.Repeat("0123456789abcdef", 1000)))
	req := schemas.ModelRequest{Model: model, Messages: schemas.Messages{user("go")}}
	b.ReportAllocs()
	deltas := 0
	for b.Loop() {
		for e := range m.Stream(context.Background(), req) {
			if e.Type == schemas.StreamTextDelta {
				deltas++
			}
		}
	}
	b.ReportMetric(float64(deltas)/b.Elapsed().Seconds(), "deltas/s")
}

func BenchmarkToolTurn(b *testing.B) {
	m := scripted.New(scripted.Calls("", schemas.ToolCall{ID: "c", Name: "echo", Arguments: json.RawMessage(`{"v":"x"}`)}))
	req := schemas.ModelRequest{Model: model, Messages: schemas.Messages{user("go")}}
	b.ReportAllocs()
	for b.Loop() {
		for range m.Stream(context.Background(), req) {
		}
	}
}
