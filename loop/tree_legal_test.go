package loop_test

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/compaction"
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// fork creates a session as a copy from an entry: its context is the path to the entry, without a last reply whose
// calls have no results, and a model can be called with it.
func (g *gardener) fork(seed uint64, entry string, position schemas.BranchPosition) {
	g.t.Helper()
	s := &loop.State{}
	for _, e := range g.log {
		path, err := s.Enter(e, entry)
		if err != nil {
			g.t.Fatal(err)
		}
		if path == nil {
			continue
		}
		want := len(path.Entries)
		copied, err := s.BranchedAt(path, &schemas.Branch{Session: "s1", EntryID: entry, Position: position})
		if err != nil {
			if position == schemas.BranchAt || want > 0 && path.Entries[want-1].Message.MessageRole() == schemas.RoleUser {
				g.t.Fatalf("seed %d: fork %s %s: %v", seed, position, entry, err)
			}
			return
		}
		fork := &loop.State{Session: "s2"}
		begun := fork.Envelope(copied)
		begun.Session, begun.Time = "s2", time.UnixMilli(1).UTC()
		if err := fork.Apply(begun); err != nil {
			g.t.Fatal(err)
		}
		messages := fork.Transcript()
		if wrong := unanswered(messages); wrong != "" {
			g.t.Fatalf("seed %d: fork %s %s: %s", seed, position, entry, wrong)
		}
		for i, m := range messages {
			if d := cmp.Diff(path.Entries[i].Message.Message, m); d != "" {
				g.t.Fatalf("seed %d: fork %s %s: message %d (-path +fork):\n%s", seed, position, entry, i, d)
			}
		}
		return
	}
}

// unanswered returns what no vendor accepts in a context: a result without its call, or a call without its result.
func unanswered(context schemas.Messages) string {
	messages := providers.Transform(compaction.ToLLM(context), &providers.Model{}, nil)
	if wrong := illegal(messages); wrong != "" {
		return wrong
	}
	open := map[string]bool{}
	for i, m := range messages {
		switch m := m.(type) {
		case *schemas.ToolResultMessage:
			delete(open, m.ToolCallID)
		case *schemas.AssistantMessage:
			if len(open) > 0 {
				return fmt.Sprintf("message %d follows calls without a result", i)
			}
			if !m.Failed() { // a failed one is left out
				for _, c := range m.Content.ToolCalls() {
					open[c.ID] = true
				}
			}
		default:
			if len(open) > 0 {
				return fmt.Sprintf("message %d follows calls without a result", i)
			}
		}
	}
	if len(open) > 0 {
		return "it ends with calls without a result"
	}
	return ""
}

// illegal returns which result of a transcript is without its call.
func illegal(messages schemas.Messages) string {
	open := map[string]bool{}
	for i, m := range messages {
		switch m := m.(type) {
		case *schemas.AssistantMessage:
			clear(open)
			for _, c := range m.Content.ToolCalls() {
				open[c.ID] = true
			}
		case *schemas.ToolResultMessage:
			if !open[m.ToolCallID] {
				return fmt.Sprintf("message %d is a result of %s, which is not called", i, m.ToolCallID)
			}
			delete(open, m.ToolCallID)
		}
	}
	return ""
}
