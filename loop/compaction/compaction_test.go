package compaction_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/compaction"
	"github.com/loopbus/loopbus/schemas"
)

// TestSessionCases in package sessionfile plays the recorded cases. The tests here are for deliberate differences and
// for behaviour that is not recorded.

func text(s string) schemas.Contents { return schemas.Contents{schemas.Text{Text: s}} }

func said(id string, m schemas.Message) compaction.Entry {
	return compaction.Entry{ID: id, Kind: compaction.KindMessage, Message: m}
}

// long is a session of three turns of 200 tokens each.
func long() (path []compaction.Entry) {
	for n := range 3 {
		path = append(path,
			said(fmt.Sprint("u", n), &schemas.UserMessage{Content: text(strings.Repeat("q", 400))}),
			said(fmt.Sprint("a", n), &schemas.AssistantMessage{
				Content: text(strings.Repeat("a", 400)), StopReason: schemas.StopStop,
				Usage: schemas.Usage{TotalTokens: int64(200 * (n + 1))},
			}))
	}
	return path
}

// TestRepliesWithoutASummaryAreErrors checks that a reply that is empty, cut off, aborted or failed is an error.
func TestRepliesWithoutASummaryAreErrors(t *testing.T) {
	t.Parallel()
	p := compaction.Prepare(long(), compaction.Settings{ReserveTokens: 1000, KeepRecentTokens: 100})
	if !p.Split || len(p.Requests(compaction.Asking{})) != 2 {
		t.Fatalf("prepared %+v, want a split turn", p)
	}
	b := compaction.PrepareBranch(long(), 0)
	good := &schemas.AssistantMessage{Content: text("summary"), StopReason: schemas.StopStop}
	for _, c := range []struct {
		name  string
		reply schemas.AssistantMessage
		want  error
		says  string
	}{
		{"empty", schemas.AssistantMessage{StopReason: schemas.StopStop}, compaction.ErrEmpty, ""},
		{"blank", schemas.AssistantMessage{StopReason: schemas.StopStop, Content: text(" \n")}, compaction.ErrEmpty, ""},
		{"thoughts only", schemas.AssistantMessage{StopReason: schemas.StopStop,
			Content: schemas.Contents{schemas.Thinking{Thinking: "hm"}}}, compaction.ErrEmpty, ""},
		{"cut off", schemas.AssistantMessage{StopReason: schemas.StopLength, Content: text("half")},
			compaction.ErrCutOff, ""},
		{"aborted", schemas.AssistantMessage{StopReason: schemas.StopAborted, Content: text("half")},
			compaction.ErrAborted, ""},
		{"failed", schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: "overloaded"}, nil, "overloaded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, first := p.Summarize(&c.reply, good)
			_, second := p.Summarize(good, &c.reply)
			_, _, branch := b.Summarize(&c.reply)
			for _, err := range []error{first, second, branch} {
				if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want %v %s", err, c.want, c.says)
				}
			}
			if !strings.HasPrefix(fmt.Sprint(first), "Summarization failed: ") ||
				!strings.HasPrefix(fmt.Sprint(second), "Turn prefix summarization failed: ") {
				t.Errorf("got %v and %v", first, second)
			}
		})
	}
	r, err := p.Summarize(good, good)
	if err != nil || r.FirstKept != "a2" || !strings.Contains(r.Summary, "(split turn)") {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err := p.Summarize(good); err == nil {
		t.Error("one reply was taken for two requests")
	}
}

// TestRequestsToTheModel tests the limits of the two requests of a split turn, and what each contains.
func TestRequestsToTheModel(t *testing.T) {
	t.Parallel()
	p := compaction.Prepare(long(), compaction.Settings{ReserveTokens: 1001, KeepRecentTokens: 100})
	requests := p.Requests(compaction.Asking{Focus: "the names", Reasons: true, ThinkingLevel: schemas.ThinkingHigh})
	for i, want := range []struct {
		kind  compaction.RequestKind
		max   int64
		focus bool
	}{{compaction.RequestInitial, 800, true}, {compaction.RequestTurnPrefix, 500, false}} {
		r := requests[i]
		if r.Kind != want.kind || r.MaxTokens != want.max || r.ThinkingLevel != schemas.ThinkingHigh ||
			strings.Contains(r.Prompt, "Additional focus: the names") != want.focus {
			t.Errorf("request %d is %+v, want %+v", i, r, want)
		}
	}
	for _, a := range []compaction.Asking{
		{ThinkingLevel: schemas.ThinkingHigh}, {Reasons: true, ThinkingLevel: schemas.ThinkingOff},
	} {
		if r := p.Requests(a)[1]; r.ThinkingLevel != "" {
			t.Errorf("%+v asks for %q", a, r.ThinkingLevel)
		}
	}
}

// TestUsageThatIsIgnored checks that a reply without usage does not make a context empty, and that usage from before a
// compaction can be ignored.
func TestUsageThatIsIgnored(t *testing.T) {
	t.Parallel()
	var messages []schemas.Message
	for _, e := range long() {
		messages = append(messages, e.Message)
	}
	messages = append(messages, &schemas.AssistantMessage{Content: text("ab"), StopReason: schemas.StopStop})
	want := compaction.ContextEstimate{Tokens: 601, UsageTokens: 600, TrailingTokens: 1, LastUsageIndex: 5}
	if d := cmp.Diff(want, compaction.EstimateContext(messages)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	want = compaction.ContextEstimate{Tokens: 601, TrailingTokens: 601, LastUsageIndex: -1}
	if d := cmp.Diff(want, compaction.EstimateContextSince(messages, 6)); d != "" {
		t.Errorf("since 6 (-want +got):\n%s", d)
	}
}

// TestTheLargestUsage checks that the size of a context is a number that events may have, whatever a model reports.
func TestTheLargestUsage(t *testing.T) {
	t.Parallel()
	for _, u := range []schemas.Usage{
		{TotalTokens: schemas.MaxInteger}, {Input: schemas.MaxInteger, Output: schemas.MaxInteger},
	} {
		messages := []schemas.Message{
			&schemas.AssistantMessage{Content: text("ab"), StopReason: schemas.StopStop, Usage: u},
			&schemas.UserMessage{Content: text("and what comes after it")},
		}
		if e := compaction.EstimateContext(messages); e.Tokens != schemas.MaxInteger {
			t.Errorf("%+v makes %+v", u, e)
		}
	}
}

// TestRepeatedCompactionKeepsTheContextSmall checks that a context that is compacted many times stays small and keeps
// the newest messages, and that each request contains the previous summary.
func TestRepeatedCompactionKeepsTheContextSmall(t *testing.T) {
	t.Parallel()
	var path []compaction.Entry
	settings := compaction.Settings{Enabled: true, ReserveTokens: 1000, KeepRecentTokens: 300}
	previous := ""
	for n := range 50 {
		for _, e := range long() {
			e.ID = fmt.Sprint(n, e.ID)
			path = append(path, e)
		}
		p := compaction.Prepare(path, settings)
		if p == nil || p.Nothing() || p.PreviousSummary != previous {
			t.Fatalf("round %d: prepared %+v, want an update of %q", n, p, previous)
		}
		requests := p.Requests(compaction.Asking{})
		if previous != "" && !strings.Contains(requests[0].Prompt, "<previous-summary>\n"+previous+"\n") {
			t.Fatalf("round %d asks %+v", n, requests[0])
		}
		replies := make([]*schemas.AssistantMessage, len(requests))
		for i := range replies {
			replies[i] = &schemas.AssistantMessage{Content: text(fmt.Sprint("summary ", n)), StopReason: schemas.StopStop}
		}
		r, err := p.Summarize(replies...)
		if err != nil {
			t.Fatal(err)
		}
		previous = r.Summary
		path = append(path, compaction.Entry{
			ID: fmt.Sprint("c", n), Kind: compaction.KindCompaction, FirstKept: r.FirstKept, Files: r.Files,
			Message: compaction.CompactionSummary(r.Summary, r.TokensBefore, 1),
		})
		context := compaction.Context(path)
		if size := compaction.EstimateContextSince(context, len(context)).Tokens; size > 450 {
			t.Fatalf("round %d: the context has %d tokens", n, size)
		}
		if last := context[len(context)-1].(*schemas.AssistantMessage); last.Usage.TotalTokens != 600 {
			t.Fatalf("round %d: the last message is %+v", n, last)
		}
	}
}

// TestCycleOfParentsEnds checks that Left returns although parents form a cycle.
func TestCycleOfParentsEnds(t *testing.T) {
	t.Parallel()
	parents := map[string]string{"a": "b", "b": "c", "c": "a", "d": ""}
	parent := func(id string) (string, bool) { p, ok := parents[id]; return p, ok }
	if ids, ancestor := compaction.Left(parent, "a", "d"); ancestor != "" || cmp.Diff([]string{"c", "b", "a"}, ids) != "" {
		t.Errorf("left %v, ancestor %q", ids, ancestor)
	}
	if ids, ancestor := compaction.Left(parent, "d", "a"); ancestor != "" || cmp.Diff([]string{"d"}, ids) != "" {
		t.Errorf("left %v, ancestor %q", ids, ancestor)
	}
}

// TestDeepArgumentsAreBounded checks that the cost of nested arguments is linear in their size. It is not parallel,
// because it counts the allocations of the process.
func TestDeepArgumentsAreBounded(t *testing.T) {
	allocated := func(depth int) uint64 {
		deep := json.RawMessage(`{"k":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`)
		m := &schemas.AssistantMessage{Content: schemas.Contents{schemas.ToolCall{Name: "read", Arguments: deep}}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if n := compaction.EstimateTokens(m); n != int64(len(deep)+4+3)/4 {
			t.Errorf("estimated %d", n)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := allocated(1000), allocated(9000); many > 20*few {
		t.Errorf("1,000 levels took %d bytes, 9,000 took %d", few, many)
	}
}

// TestNestedTextIsNotCopied checks that a long text in values within values is not copied for each of them. It is not
// parallel either.
func TestNestedTextIsNotCopied(t *testing.T) {
	const size, levels = 1 << 20, 48
	for open, end := range map[string]string{`{"a":`: "}", "[": "]"} {
		x := strings.Repeat(open, levels) + `"` + strings.Repeat("b", size) + `"` + strings.Repeat(end, levels)
		call := schemas.ToolCall{Name: "ls", Arguments: json.RawMessage(`{"x":` + x + `}`)}
		m := &schemas.AssistantMessage{Content: schemas.Contents{call}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		text := compaction.Serialize([]schemas.Message{m})
		runtime.ReadMemStats(&after)
		if !strings.Contains(text, "ls(x="+x+")") {
			t.Errorf("%.200s", text)
		}
		if took := (after.TotalAlloc - before.TotalAlloc) / size; took > 20 {
			t.Errorf("%s: %d times the text was allocated", open, took)
		}
	}
}

// FuzzMessages checks that no message makes an estimate, a conversion or the text of a conversation panic.
func FuzzMessages(f *testing.F) {
	f.Add(`{"role":"custom","content":[{"type":"odd"},{"type":"text","text":"x"}]}`)
	f.Add(`{"role":"bashExecution","command":5,"exitCode":1.5}`)
	f.Add(`{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"read",` +
		`"arguments":{"2":1,"1":[1e999,-0,"\ud83d"],"path":{}}}]}`)
	f.Add(`{"role":"compactionSummary"}`)
	f.Fuzz(func(t *testing.T, raw string) {
		m, err := schemas.DecodeMessage(json.RawMessage(raw))
		if err != nil {
			t.Skip()
		}
		list := []schemas.Message{m}
		if compaction.EstimateTokens(m) < 0 {
			t.Error("a size below zero")
		}
		_ = compaction.Serialize(list)
		e := said("a", m)
		_ = compaction.Prepare([]compaction.Entry{e, e}, compaction.DefaultSettings())
		_ = compaction.PrepareBranch([]compaction.Entry{e, {Kind: compaction.KindBranchSummary, Message: m}}, 1)
	})
}
