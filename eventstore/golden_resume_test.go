package eventstore_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

var every = flag.Int("every", 8, "resume golden logs after every so many events; 1 is after each")

// What older versions have left behind, at whatever event, this one goes on with: every run comes to an end and the
// log stays one.
func TestGoldenLogsResume(t *testing.T) {
	t.Parallel()
	for _, g := range goldenLogs(t, "") {
		t.Run(g.name(), func(t *testing.T) {
			t.Parallel()
			prefixes := g.prefixes(t)
			for n := rand.IntN(*every); n < len(prefixes); n += *every {
				prefixes[n].resume(t, n)
			}
		})
	}
}

// resume takes the session up after its first n events, which are all it has, and sends it a prompt.
func (g goldenLog) resume(t *testing.T, n int) {
	t.Helper()
	r := newGoldenRig(t, g.restore(), g.Session, nil)
	r.now = r.now.AddDate(0, 1, 0)
	r.deliver("golden-prompt", &schemas.Prompt{Input: schemas.Input{Text: "go on"}})
	r.finish(n)
	g.messages, g.snapshot = r.store.Dump(g.Session, loop.FoldVersion)
	g.version = loop.FoldVersion
	if report := g.verify(t); !report.OK() {
		t.Errorf("resumed after %d events: %v", n, report.Bad)
	}
	runs, outcomes := 0, 0
	for _, e := range g.events(t) {
		switch d := e.Data.(type) {
		case *schemas.AgentStart:
			runs++
		case *schemas.AgentEnd:
			runs--
		case *schemas.CommandApplied:
			if d.CommandID == "golden-prompt" {
				outcomes++
			}
		}
	}
	if runs != 0 || outcomes != 1 {
		t.Errorf("resumed after %d events: %d runs without an end, and the prompt has %d outcomes", n, runs, outcomes)
	}
}

// finish answers what the session waits for until it has nothing left to do.
func (r *goldenRig) finish(n int) {
	r.t.Helper()
	for range 20 {
		s := r.state()
		if s.Idle() && len(s.Prompts) == 0 {
			return
		}
		if len(s.Children) > 0 {
			c := s.Children[0]
			res := &schemas.SubagentResult{Call: c.Start.Call, Nonce: c.Nonce, Session: c.Start.Session, Text: "late"}
			r.deliver(res.ID(r.session), res)
			continue
		}
		if s.Idle() || s.Run.Turn == nil {
			break
		}
		i := slices.IndexFunc(s.Run.Turn.Calls, func(c loop.Call) bool { return c.End == nil && c.Key != "" })
		if i < 0 {
			break
		}
		if call := s.Run.Turn.Calls[i]; call.AwaitsApproval() {
			r.deliver("golden-approve-"+string(call.Key),
				&schemas.Approve{ApprovalAnswer: schemas.ApprovalAnswer{Call: call.Key}})
		} else {
			r.deliver("golden-result-"+string(call.Key), &schemas.ToolResponse{
				Call: call.Key, ToolCallID: call.ToolCall.ID, ToolName: call.ToolCall.Name,
				Result: schemas.TextResult("late, but here"), Nonce: call.Nonce,
			})
		}
	}
	s := r.state()
	r.t.Fatalf("resumed after %d events: at event %d it is not at its end; next would be %#v", n, s.Seq, loop.Next(s))
}
