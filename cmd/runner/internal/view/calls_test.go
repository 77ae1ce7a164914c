package view

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/cmd/internal/waiting"
	"github.com/loopbus/loopbus/schemas"
)

// Two calls stream by turns. What replaces a partial result is shown anew, what only grows is not repeated, and whose
// output comes is said whenever that changes; the final result of a call that streamed is shown as far as it is new.
func TestCallsThatStream(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	show := NewTerminal(&out, false)
	event := func(seq uint64, data schemas.EventData) {
		if err := show.Event(schemas.Event{Session: "s1", Seq: seq, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	partial := func(call schemas.CallKey, name, text string) {
		u := &schemas.ToolExecutionUpdate{ToolName: name, Call: call, PartialResult: schemas.TextResult(text)}
		if err := show.Update(schemas.Update{Session: "s1", Data: u}); err != nil {
			t.Fatal(err)
		}
	}
	event(9, &schemas.ToolExecutionStart{ToolName: "build", Args: []byte(`{}`)})
	event(10, &schemas.ToolExecutionStart{ToolName: "test", Args: []byte(`{}`)})
	partial("c9", "build", "10 %")
	partial("c9", "build", "50 %")
	partial("c10", "test", "one")
	partial("c10", "test", "one\ntwo")
	event(11, &schemas.ToolExecutionEnd{ToolName: "build", Call: "c9", Result: schemas.TextResult("built")})
	event(12, &schemas.ToolExecutionEnd{ToolName: "test", Call: "c10", Result: schemas.TextResult("one\ntwo\nthree")})
	var words []string
	for line := range strings.Lines(out.String()) {
		words = append(words, strings.TrimSpace(line))
	}
	want := []string{
		"> build {}", "> test {}",
		"build c9:", "| 10 %", "(replaces the output above)", "| 50 %",
		"test c10:", "| one", "| two",
		"build c9:", "(replaces the output above)", "| built", "ok in 0s",
		"test c10:", "| three", "ok in 0s",
	}
	if d := cmp.Diff(want, words); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A call that no worker has begun is said to wait for one, and to have been begun when it is; its end says how long the
// tool took, and how long it was before.
func TestCallsThatWaitForAWorker(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	show := NewTerminal(&out, false)
	begun := time.Now()
	event := func(seq uint64, after time.Duration, data schemas.EventData) {
		if err := show.Event(schemas.Event{Session: "s1", Seq: seq, Time: begun.Add(after), Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	event(9, 0, &schemas.ToolExecutionStart{ToolName: "bash", Args: []byte(`{}`)})
	event(10, 0, &schemas.ToolExecutionStart{ToolName: "ask", Args: []byte(`{}`)})
	event(11, 0, &schemas.ApprovalRequested{Call: "c10", ToolName: "ask"})
	show.Look(begun.Add(4 * time.Second))
	show.Look(time.Now().Add(waiting.Late))
	show.Look(time.Now().Add(2 * waiting.Late))
	u := schemas.Update{Session: "s1", Data: &schemas.ToolExecutionUpdate{ToolName: "bash", Call: "c9"}}
	if err := show.Update(u); err != nil {
		t.Fatal(err)
	}
	event(12, 56*time.Second, &schemas.ToolExecutionEnd{ToolName: "bash", Call: "c9", DurationMs: 3, Worker: "w1",
		Result: schemas.TextResult("done")})
	event(13, 60*time.Second, &schemas.ApprovalResolved{Call: "c10", Approved: true})
	event(14, 60*time.Second+20*time.Millisecond, &schemas.ToolExecutionEnd{ToolName: "ask", Call: "c10", DurationMs: 7,
		Worker: "w1"})
	var words []string
	for line := range strings.Lines(out.String()) {
		words = append(words, strings.TrimSpace(line))
	}
	want := []string{
		"> bash {}", "> ask {}",
		"(waiting for a worker: none has started bash c9 in 5s)", "(a worker has started bash c9)",
		"bash c9:", "| done", "ok in 3ms, after waiting 56s",
		"ask c10:", "ok in 7ms",
	}
	if d := cmp.Diff(want, words); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Arguments that a service or an approver has put in place of the printed ones are printed too, but not those of a call
// that was blocked.
func TestReplacedArgumentsArePrinted(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	show := NewTerminal(&out, false)
	for seq, data := range []schemas.EventData{
		&schemas.ToolExecutionStart{ToolName: "bash", Args: []byte(`{"a":1}`)},
		&schemas.ToolExecutionStart{ToolName: "ls", Args: []byte(`{"b":1}`)},
		&schemas.HookDecision{Call: "c1", Args: []byte(`{"a":2}`), By: "svc\nx"},
		&schemas.HookDecision{Call: "c2", Args: []byte(`{"b":2}`), Block: true},
		&schemas.ApprovalResolved{Call: "c1", Approved: true, Args: []byte(`{"a":3}`)},
	} {
		if err := show.Event(schemas.Event{Session: "s1", Seq: uint64(seq + 1), Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	want := "> bash {\"a\":1}\n> ls {\"b\":1}\n  bash c1:\n  (arguments replaced by svc\\nx) {\"a\":2}\n" +
		"  (arguments replaced) {\"a\":3}\n"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Who approves a call sees all of its arguments, on one line: a model must not hide the end of a command behind
// spaces.
func TestArgumentsToApproveAreShownWhole(t *testing.T) {
	t.Parallel()
	hidden := `{"command":"ls` + strings.Repeat(" ", 5000) + `; rm -rf ~"}`
	if got := Whole([]byte("{\n\n" + hidden[1:])); got != hidden {
		t.Errorf("%d of %d bytes are shown", len(got), len(hidden))
	}
	large := Whole([]byte(`{"command":"` + strings.Repeat("é", mostArgs) + `"}`))
	if len(large) > mostArgs+100 || !strings.HasSuffix(large, "(65550 BYTES MORE ARE NOT SHOWN)") {
		t.Errorf("%d bytes, the end is %q", len(large), large[len(large)-50:])
	}
}

// A model names the tools that it calls: what it calls them is no line of the view's own.
func TestAToolsNameIsOnOneLine(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	show := NewTerminal(&out, false)
	const name = "x\ncall c9 waits for approval: ls {}; /y or /n"
	for seq, data := range []schemas.EventData{
		&schemas.ToolExecutionStart{ToolName: name, Args: []byte("{\n}")},
		&schemas.ToolExecutionEnd{ToolName: name, Call: "c7", Result: schemas.TextResult("y")},
	} {
		if err := show.Event(schemas.Event{Session: "s1", Seq: uint64(seq + 1), Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(out.String(), "\ncall c9") {
		t.Errorf("got\n%s", out.String())
	}
}

// What users, models, vendors and runners write may have many lines, none of which is one of the view's own: a sender
// must not ask for an approval in the name of the view.
func TestFurtherLinesAreMarked(t *testing.T) {
	t.Parallel()
	const line = "call c9 waits for approval: ls {}; /y or /n"
	const text = "x\r\n" + line + "\n"
	var out strings.Builder
	show := NewTerminal(&out, false)
	for seq, data := range []schemas.EventData{
		&schemas.MessageEnd{MessageID: "m1", Message: schemas.AnyMessage{Message: &schemas.UserMessage{
			Content: schemas.Contents{schemas.Text{Text: text}}}}},
		&schemas.MessageStart{MessageID: "m2", Role: schemas.RoleAssistant},
		&schemas.MessageEnd{MessageID: "m2", Message: schemas.AnyMessage{Message: &schemas.AssistantMessage{
			StopReason: schemas.StopError, ErrorMessage: text}}},
		&schemas.CommandRejected{Reason: text},
		&schemas.RunResumed{Reason: text},
		&schemas.ErrorEvent{Message: text},
	} {
		if err := show.Event(schemas.Event{Session: "s1", Seq: uint64(seq + 1), Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	show.Say("call c8: approved by " + text)
	if got := out.String(); strings.Count(got, "\n  | "+line) != 6 || strings.Contains(got, "\n"+line) {
		t.Errorf("got\n%s", got)
	}
}
