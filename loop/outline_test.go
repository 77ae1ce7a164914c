package loop_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// A state that is outlined after each event is the outline of the whole state, and has no content.
func TestOutlineOfEachEvent(t *testing.T) {
	t.Parallel()
	eachTrace(t, func(t *testing.T, _ string, a *txtar.Archive, p *player) {
		p.play(string(a.Files[0].Data))
		whole, short := &loop.State{Session: "s1"}, &loop.State{Session: "s1"}
		for _, e := range p.log {
			if err := whole.Apply(e); err != nil {
				t.Fatal(err)
			}
			if err := short.Apply(e); err != nil {
				t.Fatal(err)
			}
			short.Outline()
			copied := new(loop.State)
			if err := json.Unmarshal(marshal(t, whole), copied); err != nil {
				t.Fatal(err)
			}
			copied.Outline()
			if d := cmp.Diff(described(copied), described(short)); d != "" {
				t.Fatalf("after event %d, %s (-outline of all +outlined each time):\n%s", e.Seq, e.Type(), d)
			}
		}
		const most = 256 // of each message: its id and role, or those of an input that waits
		if n := short.Bytes() - (&loop.State{Config: short.Config}).Bytes(); n > most*len(short.Messages) {
			t.Errorf("an outline of %d messages has %d bytes", len(short.Messages), n)
		}
		if len(whole.Messages) > 0 && whole.Bytes() <= short.Bytes() {
			t.Errorf("the whole state has %d bytes, its outline %d", whole.Bytes(), short.Bytes())
		}
	})
}

// described returns what an outline has: without the texts that are made of contents, for others.
func described(s *loop.State) any {
	type entry struct {
		ID   string
		Role schemas.Role
	}
	list := func(entries []loop.Entry) (all []entry) {
		for _, e := range entries {
			all = append(all, entry{e.ID, e.Message.MessageRole()})
		}
		return all
	}
	queued := map[string]int{}
	for _, q := range [][]loop.Input{s.Prompts, s.Steering, s.FollowUp} {
		for _, in := range q {
			queued[in.CommandID] = len(in.Messages)
		}
	}
	out := map[string]any{"seq": s.Seq, "messages": list(s.Messages), "queued": queued, "tree": s.Tree, "usage": s.Usage,
		"error": s.ErrorMessage, "config": s.Config, "settings": s.Settings, "runs": s.Runs, "end": s.LastEnd}
	if r := s.Run; r != nil {
		out["run"], out["context"], out["new"], out["last"] = r.ID, list(r.Context), r.New, r.Last
		if r.Turn != nil {
			var calls []loop.Call
			for _, c := range r.Turn.Calls {
				c.End = nil
				calls = append(calls, c)
			}
			out["turn"], out["reply"], out["calls"] = r.Turn.ID, r.Turn.ReplyID, calls
		}
	}
	return out
}
