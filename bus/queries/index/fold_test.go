package index_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/view"
	"github.com/loopbus/loopbus/schemas"
)

// The fold of an entry and the fold of package loop agree on every prefix of every recorded log.
func TestFoldAgreesWithTheLoop(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../eventstore/testdata/golden/v*/*.ndjson")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d golden logs, %v", len(files), err)
	}
	seen := make(map[schemas.SessionStatus]int)
	for _, file := range files {
		e, s := new(index.Entry), new(loop.State)
		for _, ev := range goldenLog(t, file) {
			if err := s.Apply(ev); err != nil || !e.Apply(ev) {
				t.Fatalf("%s: event %d does not follow: %v", file, ev.Seq, err)
			}
			got, want := e.Summary, view.Of(s).State()
			if got.Status != want.Status || got.Seq != want.Seq || got.Runs != want.Runs {
				t.Fatalf("%s, event %d %s: entry %s, %d runs; state %s, %d runs", file, ev.Seq, ev.Type(), got.Status, got.Runs,
					want.Status, want.Runs)
			}
			if d := cmp.Diff(want.Usage, got.Usage); d != "" {
				t.Fatalf("%s, event %d %s: usage (-state +entry):\n%s", file, ev.Seq, ev.Type(), d)
			}
			if queued := len(want.Prompts) + len(want.Steering) + len(want.FollowUp); queued != got.Queued {
				t.Fatalf("%s, event %d %s: %d queued, entry %d", file, ev.Seq, ev.Type(), queued, got.Queued)
			}
			if d := cmp.Diff(want.Parent, got.Parent); d != "" {
				t.Fatalf("%s, event %d: parent (-state +entry):\n%s", file, ev.Seq, d)
			}
			seen[got.Status]++
		}
		if want := view.Of(s).State(); want.Runs > 0 {
			if d := cmp.Diff(want.Model, e.Summary.Model); d != "" {
				t.Errorf("%s: model (-state +entry):\n%s", file, d)
			}
		}
		if e.Summary.Title == "" || e.Summary.LastMessage == "" || e.Summary.Created.IsZero() {
			t.Errorf("%s: nothing to show: %+v", file, e.Summary)
		}
	}
	for _, status := range []schemas.SessionStatus{schemas.SessionIdle, schemas.SessionRunning,
		schemas.SessionWaitingForTools, schemas.SessionWaitingForApproval} {
		if seen[status] == 0 {
			t.Errorf("no recorded log was ever %s", status)
		}
	}
}

// goldenLog reads a recorded log up to the first event whose data is kept elsewhere.
func goldenLog(t *testing.T, file string) (events []schemas.Event) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var session string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var line struct {
			Session string              `json:"session"`
			Header  map[string][]string `json:"header"`
			Payload string              `json:"payload"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if session == "" {
			session = line.Session
		}
		if line.Header == nil {
			continue
		}
		part, err := schemas.DecodeLog(session, line.Header, []byte(line.Payload), nil)
		if errors.Is(err, schemas.ErrElsewhere) {
			return events
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		events = append(events, part...)
	}
	return events
}

// The texts in an entry are bounded, on one line, and mark omissions.
func TestTextsAreCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, title string }{
		{"  list\n\tthe   files \x00now ", "list the files now"},
		{strings.Repeat("é", 120), strings.Repeat("é", 120)},
		{strings.Repeat("é", 121), strings.Repeat("é", 119) + "…"},
		{strings.Repeat("x ", 100_000), strings.Repeat("x ", 59) + "x…"},
		{"a\xffb", "a\uFFFDb"},
	} {
		e := new(index.Entry)
		e.Apply(schemas.Event{Session: "s1", Seq: 1, Time: time.Unix(1, 0), Data: &schemas.SessionBranched{
			Session: "s0", Seq: 1, Messages: schemas.Messages{&schemas.UserMessage{
				Content: schemas.Contents{schemas.Text{Text: c.text}}}}}})
		if got := e.Summary.Title; got != c.title || utf8.RuneCountInString(got) > 120 {
			t.Errorf("%.20q has the title %q, want %q", c.text, got, c.title)
		}
	}
}

// The title of a session is its name, or the first text of the user if it has no name.
func TestNameIsTitle(t *testing.T) {
	t.Parallel()
	e, seq := new(index.Entry), uint64(0)
	apply := func(want string, data schemas.EventData) {
		t.Helper()
		seq++
		if !e.Apply(schemas.Event{Session: "s1", Seq: seq, Data: data}) {
			t.Fatalf("event %d does not follow", seq)
		}
		if got := e.Summary.Title; got != want {
			t.Errorf("after event %d %s the title is %q, want %q", seq, data.EventType(), got, want)
		}
	}
	said := func(text string) *schemas.MessageEnd {
		return &schemas.MessageEnd{Message: schemas.AnyMessage{Message: &schemas.UserMessage{
			Content: schemas.Contents{schemas.Text{Text: text}}}}}
	}
	apply("", &schemas.Name{})
	apply("apples", &schemas.Name{Name: "apples"})
	apply("apples", said("count the apples"))
	apply("pears", &schemas.Name{Name: "pears"})
	apply("count the apples", &schemas.Name{})
	apply("count the apples", said("once more"))

	e, seq = new(index.Entry), 0
	apply("scout", &schemas.CommandAccepted{CommandID: "p1", Kind: schemas.CommandSubagentPrompt,
		Data: json.RawMessage(`{"parent":{"session":"s0","call":"c1"},"name":"scout","text":"look"}`)})
	apply("scout", said("look"))
	apply("look", &schemas.Name{})
}

// An entry stays small, however many calls wait for approval and however large their arguments are.
func TestApprovalsAreBounded(t *testing.T) {
	t.Parallel()
	e := new(index.Entry)
	at := time.Unix(1, 0).UTC()
	apply := func(data schemas.EventData) {
		t.Helper()
		if !e.Apply(schemas.Event{Session: "s1", Seq: e.Summary.Seq + 1, Time: at, Data: data}) {
			t.Fatal("not the next event")
		}
	}
	apply(&schemas.AgentStart{})
	long := json.RawMessage(`"` + strings.Repeat("a", 1<<20) + `"`)
	for n := range uint64(5000) {
		args := long
		if n == 0 {
			args = json.RawMessage(`{"command":"ls"}`)
		}
		apply(&schemas.ApprovalRequested{Call: schemas.NewCallKey(n + 1), ToolCallID: strings.Repeat("t", 1000),
			ToolName: "bash", Args: args, Reason: strings.Repeat("because ", 1000), TimeoutMs: 1000})
	}
	raw, err := schemas.Marshal(e)
	if err != nil || len(raw) > 900<<10 {
		t.Fatalf("the entry has %d bytes, %v", len(raw), err)
	}
	first := e.Waiting[0]
	if string(first.Args) != `{"command":"ls"}` || first.ArgsSize != 0 || !first.Expires.Equal(at.Add(time.Second)) {
		t.Errorf("the first is %+v", first)
	}
	if second := e.Waiting[1]; second.Args != nil || second.ArgsSize != len(long) {
		t.Errorf("long arguments: %d bytes are kept, %d named", len(second.Args), second.ArgsSize)
	}
	if e.Summary.Status != schemas.SessionWaitingForApproval {
		t.Errorf("status %s", e.Summary.Status)
	}
	apply(&schemas.ApprovalResolved{Call: "c1"})
	if e.Waiting[0].Call != "c2" || e.Summary.Approvals != len(e.Waiting) {
		t.Errorf("%d approvals, the first %s", e.Summary.Approvals, e.Waiting[0].Call)
	}
	apply(&schemas.AgentEnd{TerminationReason: schemas.EndAbort})
	if e.Summary.Approvals != 0 || e.Summary.Status != schemas.SessionIdle {
		t.Errorf("after the run %d wait, status %s", e.Summary.Approvals, e.Summary.Status)
	}
}

// A session at rest has the status failed only if its newest run failed.
func TestStatusAtRest(t *testing.T) {
	t.Parallel()
	e, s := new(index.Entry), new(loop.State)
	apply := func(data schemas.EventData) {
		t.Helper()
		ev := s.Envelope(data)
		if ev.Session = "s1"; !e.Apply(ev) || s.Apply(ev) != nil {
			t.Fatal("not the next event")
		}
	}
	for reason, want := range map[schemas.TerminationReason]schemas.SessionStatus{
		schemas.EndError: schemas.SessionFailed, schemas.TimeoutRun: schemas.SessionFailed,
		schemas.TimeoutIdle: schemas.SessionFailed, schemas.EndAbort: schemas.SessionIdle,
		schemas.EndMaxTurns: schemas.SessionIdle, schemas.EndNoToolCalls: schemas.SessionIdle,
	} {
		apply(&schemas.AgentStart{Config: &schemas.RunConfig{Model: schemas.ModelRef{ID: "m"}, Profile: "p"}})
		apply(&schemas.AgentEnd{TerminationReason: reason, ErrorMessage: "what\nwent wrong"})
		if got := view.Of(s).State().Status; e.Summary.Status != want || got != want {
			t.Errorf("after %s: entry %s, state %s, want %s", reason, e.Summary.Status, got, want)
		}
		if e.Summary.Error != "what went wrong" || e.Summary.Profile != "p" {
			t.Errorf("%+v", e.Summary)
		}
	}
}

// A session is pending while something is to come of it that no person has to do.
func TestPending(t *testing.T) {
	t.Parallel()
	e := new(index.Entry)
	for i, step := range []struct {
		data schemas.EventData
		want bool
	}{
		{&schemas.CommandAccepted{CommandID: "p1", Kind: schemas.CommandPrompt, Queue: schemas.QueuePrompts}, true},
		{&schemas.AgentStart{Inputs: []string{"p1"}}, true},
		{&schemas.ToolExecutionStart{ToolCallID: "t1", ToolName: "agent"}, true},
		{&schemas.ApprovalRequested{Call: "c3", ToolCallID: "t1", ToolName: "agent"}, false},
		{&schemas.ApprovalResolved{Call: "c3"}, true},
		{&schemas.SubagentStart{Call: "c3", Session: "s2", Background: true}, true},
		{&schemas.AgentEnd{TerminationReason: schemas.EndNoToolCalls}, true},
		{&schemas.SubagentEnd{Call: "c3"}, false},
		{&schemas.SubagentEnd{Call: "c3"}, false}, // of an entry that did not count its start
		{&schemas.SubagentStart{Call: "c9", Session: "s3"}, true},
	} {
		ev := schemas.Event{Session: "s1", Seq: uint64(i) + 1, Time: time.Unix(1, 0), Data: step.data}
		if !e.Apply(ev) || e.Pending() != step.want {
			t.Errorf("after %s %d: pending %t", ev.Type(), ev.Seq, e.Pending())
		}
	}
}

// A session whose reply has as many calls as it may, and all wait, is in the memory of every runner.
func TestWaitingCallsTakeLittle(t *testing.T) {
	t.Parallel()
	e := new(index.Entry)
	at := time.UnixMilli(1)
	args := json.RawMessage(`"` + strings.Repeat("a", 1000) + `"`)
	for n := range uint64(256) {
		if !e.Apply(schemas.Event{Session: "s1", Seq: n + 1, Time: at, Data: &schemas.ApprovalRequested{
			Call: schemas.NewCallKey(n + 1), ToolCallID: strings.Repeat("t", 1000), ToolName: "bash", Args: args,
			Digest: strings.Repeat("d", 64), Reason: strings.Repeat("because ", 1000), TimeoutMs: 1000}}) {
			t.Fatal("not the next event")
		}
	}
	if raw, err := schemas.Marshal(e); err != nil || len(raw) > 120<<10 || len(e.Waiting) != 256 {
		t.Errorf("%d calls take %d bytes, %v", len(e.Waiting), len(raw), err)
	}
}
