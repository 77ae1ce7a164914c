package sessionfile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/compaction"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/sessionfile"
)

// TestAnyHistoryFoldsToTheSame checks that after any sequence of turns, moves, labels, compactions, summaries and
// copies the file has the same tree, labels, name and contexts as the session in memory, and that vendors accept every
// context.
func TestAnyHistoryFoldsToTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := &walker{r: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir()}
			w.s = sessionfile.New(sessionfile.Options{CWD: "/project", Dir: w.dir})
			w.turn(t)
			for range 25 {
				w.act(t)
				for range 3 {
					legal(t, w.s, w.any().ID)
				}
				legal(t, w.s, w.s.Leaf())
				again, err := sessionfile.Open(w.s.File(), nil)
				if err != nil {
					t.Fatal(err)
				}
				before, after := picture(t, w.s), picture(t, again)
				for part := range before {
					if !bytes.Equal(before[part], after[part]) {
						t.Fatalf("%s before opening again\n%s\nand after\n%s", part, before[part], after[part])
					}
				}
			}
		})
	}
}

type walker struct {
	r     *rand.Rand
	s     *sessionfile.Session
	dir   string
	calls int
}

func (w *walker) act(t *testing.T) {
	t.Helper()
	any := w.any()
	label := fmt.Sprint("label ", w.r.IntN(9))
	var err error
	switch w.r.IntN(9) {
	case 0, 1, 2:
		w.turn(t)
	case 3:
		w.move(t, any, w.r.IntN(2) == 0)
	case 4:
		_, err = w.s.AppendLabel(any.ID, &label)
	case 5:
		_, err = w.s.AppendName(label)
	case 6:
		_, err = w.s.AppendCustomMessage("note", json.RawMessage(`"a note"`), true, nil)
	case 7:
		w.compact(t)
	case 8:
		if next, cut := w.s.Extract(any.ID); cut == nil && replied(next) {
			w.s = next
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (w *walker) any() *sessionfile.Entry {
	entries := w.s.Entries()
	return entries[w.r.IntN(len(entries))]
}

// replied reports whether the session has a model's reply. Without one it has no file.
func replied(s *sessionfile.Session) bool {
	for _, e := range s.Entries() {
		if e.Role() == "assistant" {
			return true
		}
	}
	return false
}

// turn is a user's message, a reply with calls and, mostly, all their results, and a reply.
func (w *walker) turn(t *testing.T) {
	t.Helper()
	w.say(t, &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "please"}}})
	reply := &schemas.AssistantMessage{StopReason: schemas.StopToolUse, Usage: schemas.Usage{Input: 5, TotalTokens: 5}}
	results := w.r.IntN(4)
	for range results {
		w.calls++
		reply.Content = append(reply.Content, schemas.ToolCall{
			ID: fmt.Sprint("c", w.calls), Name: "read", Arguments: json.RawMessage(`{"path":"f"}`),
		})
	}
	w.say(t, reply)
	for _, call := range reply.Content.ToolCalls() {
		if w.r.IntN(8) > 0 {
			w.say(t, &schemas.ToolResultMessage{
				ToolCallID: call.ID, ToolName: call.Name, Content: schemas.Contents{schemas.Text{Text: "text"}},
			})
		}
	}
	w.say(t, &schemas.AssistantMessage{
		Content: schemas.Contents{schemas.Text{Text: "done"}}, StopReason: schemas.StopStop,
	})
}

func (w *walker) say(t *testing.T, m schemas.Message) {
	t.Helper()
	if _, err := w.s.AppendMessage(marshal(t, m)); err != nil {
		t.Fatal(err)
	}
}

func (w *walker) move(t *testing.T, to *sessionfile.Entry, summarize bool) {
	t.Helper()
	leaf, _, err := w.s.Target(to.ID)
	if err == nil && summarize {
		_, err = w.s.BranchWithSummary(leaf, sessionfile.Summary{Text: "what was tried"})
	} else if w.s.Reset(); leaf != "" {
		err = w.s.Branch(leaf)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !summarize { // a move without a summary is not stored
		w.say(t, &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "another way"}}})
	}
}

// compact compacts the path at a random place.
func (w *walker) compact(t *testing.T) {
	t.Helper()
	m := newMessages(t)
	var path []compaction.Entry
	for _, e := range w.s.Path(w.s.Leaf()) {
		path = append(path, m.entry(e))
	}
	p := compaction.Prepare(path, compaction.Settings{ReserveTokens: 1000, KeepRecentTokens: w.r.Int64N(60)})
	if p == nil || p.Nothing() {
		return
	}
	if _, err := w.s.AppendCompaction(sessionfile.Summary{Text: "before"}, p.FirstKept, p.TokensBefore); err != nil {
		t.Fatal(err)
	}
}

// legal checks that every tool result in a context follows its call.
func legal(t *testing.T, s *sessionfile.Session, leaf string) {
	t.Helper()
	m := newMessages(t)
	called := map[string]bool{}
	for _, message := range compaction.ToLLM(m.decodeAll(s.Context(leaf).Messages)) {
		switch message := message.(type) {
		case *schemas.AssistantMessage:
			for _, call := range message.Content.ToolCalls() {
				called[call.ID] = true
			}
		case *schemas.ToolResultMessage:
			if !called[message.ToolCallID] {
				t.Fatalf("at %s: a result of %s, whose call is not in the context", leaf, message.ToolCallID)
			}
		}
	}
}

// picture holds everything that a session's methods return.
func picture(t *testing.T, s *sessionfile.Session) map[string][]byte {
	t.Helper()
	return map[string][]byte{
		"tree": marshal(t, nodes(s.Tree())), "name": marshal(t, s.Name()), "labels": marshal(t, s.Labels()),
		"entries": marshal(t, s.Entries()), "leaf": marshal(t, s.Leaf()), "context": marshal(t, s.Context(s.Leaf())),
	}
}

// TestCyclesEnd checks that every walk ends although parents form a cycle, and that every entry is in the tree once.
func TestCyclesEnd(t *testing.T) {
	t.Parallel()
	lines := parsed(t, []json.RawMessage{
		json.RawMessage(`{"type":"session","version":3,"id":"s","cwd":"/p"}`),
		json.RawMessage(`{"type":"custom","id":"d","parentId":"c"}`),
		json.RawMessage(`{"type":"custom","id":"a","parentId":"c"}`),
		json.RawMessage(`{"type":"custom","id":"b","parentId":"a"}`),
		json.RawMessage(`{"type":"custom","id":"c","parentId":"b"}`),
		json.RawMessage(`{"type":"custom","id":"self","parentId":"self"}`),
	})
	s := sessionfile.FromEntries(lines)
	for leaf, want := range map[string][]string{
		"c": {"a", "b", "c"}, "a": {"a"}, "d": {"a", "b", "c", "d"}, "self": {"self"},
	} {
		if d := cmp.Diff(want, ids(s.Path(leaf))); d != "" {
			t.Errorf("path of %s (-want +got):\n%s", leaf, d)
		}
	}
	want := `[{"children":[{"children":[{"children":[{"children":[],"id":"d","type":"custom"}],` +
		`"id":"c","type":"custom"}],"id":"b","type":"custom"}],"id":"a","type":"custom"},` +
		`{"children":[],"id":"self","type":"custom"}]`
	if d := cmp.Diff(want, string(marshal(t, nodes(s.Tree())))); d != "" {
		t.Errorf("tree (-want +got):\n%s", d)
	}
}
