package rehearsal_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/providers/rehearsal"
	"github.com/loopbus/loopbus/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func request(text string, tools ...string) schemas.ModelRequest {
	req := schemas.ModelRequest{
		Model:    schemas.ModelRef{API: "rehearsal", Provider: "loopbus", ID: "rehearsal"},
		Messages: schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: text}}}},
	}
	for _, name := range tools {
		req.Tools = append(req.Tools, schemas.ToolDefinition{Name: name})
	}
	return req
}

func all() []string { return []string{"bash", "read", "ls", "write", "edit", "grep", "find"} }

// stream returns the events of one call and checks the rules for every stream.
func stream(t testing.TB, req schemas.ModelRequest) ([]schemas.StreamEvent, *schemas.AssistantMessage) {
	t.Helper()
	var events []schemas.StreamEvent
	joined := map[int]string{}
	for e, err := range new(rehearsal.Model).Stream(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		joined[e.ContentIndex] += e.Delta
		events = append(events, e)
	}
	last := events[len(events)-1]
	if events[0].Type != schemas.StreamStart || last.Type != schemas.StreamDone {
		t.Fatalf("stream from %s to %s", events[0].Type, last.Type)
	}
	for i, block := range last.Message.Content {
		want := ""
		switch b := block.(type) {
		case schemas.Text:
			want = b.Text
		case schemas.ToolCall:
			want = string(b.Arguments)
		}
		if joined[i] != want {
			t.Errorf("block %d: deltas %q, message %q", i, joined[i], want)
		}
	}
	return events, last.Message
}

func TestLinesBecomeCalls(t *testing.T) {
	for line, want := range map[string]string{
		"!ls -l | wc":                  `bash {"command":"ls -l | wc"}`,
		"  !  echo <a> & b  ":          `bash {"command":"echo <a> & b"}`,
		"read a dir/b.go":              `read {"path":"a dir/b.go"}`,
		"ls":                           `ls {}`,
		"ls src":                       `ls {"path":"src"}`,
		`write a.txt: one\ntwo: three`: `write {"path":"a.txt","content":"one\ntwo: three"}`,
		"write empty:":                 `write {"path":"empty","content":""}`,
		"edit a.go: foo() => bar()":    `edit {"path":"a.go","edits":[{"oldText":"foo()","newText":"bar()"}]}`,
		"edit a.go: foo =>":            `edit {"path":"a.go","edits":[{"oldText":"foo","newText":""}]}`,
		"grep TODO src":                `grep {"pattern":"TODO","path":"src"}`,
		"find *.go":                    `find {"pattern":"*.go"}`,
		`call dice {"sides": 6}`:       `dice {"sides":6}`,
		"  call  ls  {}":               `ls {}`,
	} {
		_, message := stream(t, request(line, append(all(), "dice")...))
		calls := message.Content.ToolCalls()
		if len(calls) != 1 || message.StopReason != schemas.StopToolUse {
			t.Errorf("%q: %+v", line, message)
		} else if got := calls[0].Name + " " + string(calls[0].Arguments); got != want {
			t.Errorf("%q: got %s, want %s", line, got, want)
		}
	}
}

func TestSeveralLinesAreOneReply(t *testing.T) {
	req := request("Please do:\n!pwd\r\nread go.mod\nand tell me\n\nls", "bash", "read", "ls")
	req.Messages = append(schemas.Messages{&schemas.AssistantMessage{},
		&schemas.AssistantMessage{StopReason: schemas.StopError}}, req.Messages...)
	_, message := stream(t, req)
	var got []string
	for _, call := range message.Content.ToolCalls() {
		got = append(got, call.ID+" "+call.Name)
	}
	if d := cmp.Diff([]string{"call_3_2 bash", "call_3_3 read", "call_3_4 ls"}, got); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	if text := message.Content.JoinText(); text != "Calling bash, read, ls." {
		t.Errorf("text %q", text)
	}
}

func TestMissingToolsAreExplained(t *testing.T) {
	_, message := stream(t, request("!rm -rf secret\nread x", "read"))
	if calls := message.Content.ToolCalls(); len(calls) != 1 || calls[0].Name != "read" {
		t.Errorf("calls %v", calls)
	}
	text := message.Content.JoinText()
	if !strings.Contains(text, "would call the tool bash, which this session does not offer") ||
		strings.Contains(text, "secret") {
		t.Errorf("text %q", text)
	}
	_, message = stream(t, request("!ls", "read"))
	if message.StopReason != schemas.StopStop || !strings.Contains(message.Content.JoinText(), "read PATH") {
		t.Errorf("message %+v", message)
	}
}

func TestOtherToolsAreNamed(t *testing.T) {
	_, message := stream(t, request("hello", "ls", "dice", "clock"))
	if said := message.Content.JoinText(); !strings.HasSuffix(said,
		"\n  ls [PATH]\n  call clock {JSON}\n  call dice {JSON}") {
		t.Errorf("said %q", said)
	}
	_, message = stream(t, request("hello", strings.Split("a b c d e f g h i j", " ")...))
	if said := message.Content.JoinText(); !strings.HasSuffix(said,
		"\n  call h {JSON}\n  call TOOL {JSON}, for 2 more tools") {
		t.Errorf("said %q", said)
	}
	_, message = stream(t, request(`call oven {"hot":"secret"}`, "dice"))
	said := message.Content.JoinText()
	if !strings.Contains(said, "would call the tool oven, which this session does not offer") ||
		!strings.Contains(said, "call dice {JSON}") ||
		strings.Contains(said, "secret") {
		t.Errorf("said %q", said)
	}
}

func TestOtherTextIsIntroduced(t *testing.T) {
	for _, text := range []string{"my password is hunter2", "", "readme please", "write nothing", "edit a: b", "!", "read",
		"grep",
		"call me", "call", "call bash", "call bash [1]", "call bash {", "call a.b {}", "call it {a day}"} {
		_, message := stream(t, request(text, "bash", "write", "edit", "read", "grep"))
		said := message.Content.JoinText()
		if message.StopReason != schemas.StopStop || !strings.HasPrefix(said, "This is rehearsal") ||
			!strings.Contains(said, "!COMMAND") {
			t.Errorf("%q: %q", text, said)
		}
		if strings.Contains(said, "hunter2") || strings.Contains(said, "find") {
			t.Errorf("%q: %q", text, said)
		}
	}
	if _, message := stream(t, request("hello")); !strings.Contains(message.Content.JoinText(), "offers none") {
		t.Errorf("without tools: %q", message.Content.JoinText())
	}
}

func TestResultsAreReported(t *testing.T) {
	req := request("!ls", all()...)
	result := func(name, text string, isError bool, more ...schemas.Content) schemas.Message {
		return &schemas.ToolResultMessage{ToolName: name, IsError: isError,
			Content: append(schemas.Contents{schemas.Text{Text: text}}, more...)}
	}
	req.Messages = append(req.Messages,
		result("stale", "old", false), &schemas.AssistantMessage{},
		result("bash", "a.go\n\nb.go\nc.go\nd.go\n", false),
		result("read", "no such file", true),
		result("write", "", false),
		result("read", strings.Repeat("x", 200), false, schemas.Image{}))
	_, message := stream(t, req)
	want := "bash: ok, 5 lines, 21 bytes.\n  a.go\n  b.go\n  c.go\n  ...\n\n" +
		"read: failed, 1 line, 12 bytes.\n  no such file\n\n" +
		"write: ok, 0 lines, 0 bytes.\n\n" +
		"read: ok, 1 line, 200 bytes, 1 image.\n  " + strings.Repeat("x", 120) + "..."
	if d := cmp.Diff(want, message.Content.JoinText()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if message.StopReason != schemas.StopStop {
		t.Errorf("stop reason %s", message.StopReason)
	}
}

func TestAUserAfterTheResultsCounts(t *testing.T) {
	req := request("!ls", "bash")
	req.Messages = append(req.Messages, &schemas.ToolResultMessage{ToolName: "bash"}, request("!pwd").Messages[0])
	if _, message := stream(t, req); len(message.Content.ToolCalls()) != 1 {
		t.Errorf("message %+v", message)
	}
}

func TestRepliesRepeat(t *testing.T) {
	m := rehearsal.Model{Now: func() time.Time { return time.UnixMilli(1) }}
	collect := func() (events []schemas.StreamEvent) {
		for e := range m.Stream(t.Context(), request("!ls\nhello", "bash")) {
			events = append(events, e)
		}
		return events
	}
	if d := cmp.Diff(collect(), collect()); d != "" {
		t.Error(d)
	}
}

func TestUsage(t *testing.T) {
	req := request("!echo hi", "bash") // 8 + 4 characters
	req.SystemPrompt = "äöü"           // 3
	req.Tools[0].Parameters = json.RawMessage(`{}`)
	_, message := stream(t, req)
	out := int64(len("Calling bash.")+len(`bash{"command":"echo hi"}`)+3) / 4
	want := schemas.Usage{Input: 5, Output: out, TotalTokens: 5 + out}
	if d := cmp.Diff(want, message.Usage); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestDelayAndAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rehearsal.Model{Delay: time.Second}
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		var last schemas.StreamEvent
		for e := range m.Stream(ctx, request("hello")) {
			last = e
		}
		if last.Type != schemas.StreamError || last.Reason != schemas.StopAborted ||
			last.Message.ErrorMessage != "Request was aborted" {
			t.Fatalf("%+v", last)
		}
		if got := last.Message.Content.JoinText(); got != "This is rehearsal, " {
			t.Errorf("partial %q", got)
		}
	})
}

func BenchmarkStream(b *testing.B) {
	var m rehearsal.Model
	req := request("!ls", "bash")
	b.ReportAllocs()
	events := 0
	for b.Loop() {
		for range m.Stream(context.Background(), req) {
			events++
		}
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}
