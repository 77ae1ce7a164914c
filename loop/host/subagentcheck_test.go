package host_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// bells are the timers that are set, by session and name.
type bells map[string]schemas.Timer

func (b bells) Schedule(_ context.Context, session string, _ time.Time, timer schemas.Timer) error {
	b[session+" "+timer.Name] = timer
	return nil
}

func (b bells) Cancel(_ context.Context, session, name string) error {
	delete(b, session+" "+name)
	return nil
}

// hamlet is a village in which messages get lost.
type hamlet struct {
	*village
	host  *host.Host
	bells bells
	gone  map[string]bool // sessions whose logs were deleted
}

func newHamlet(t *testing.T) *hamlet {
	l := &hamlet{village: &village{t: t, store: eventstore.NewMemory()}, bells: bells{}, gone: map[string]bool{}}
	empty := eventstore.NewMemory()
	l.host = host.New(host.Options{
		Open: func(ctx context.Context, session string) (host.SessionLog, error) {
			store := l.store
			if l.gone[session] {
				store = empty
			}
			return store.Open(ctx, session)
		},
		Deps: driver.Deps{Model: looptest.ModelFunc(scripted), Tools: looptest.NewQueue(), Outbox: l.village, Timers: l.bells,
			Source: "/loopbus/runner/test", AbortGrace: time.Millisecond},
		Toolbox: familyBox{}, Defaults: schemas.RunConfig{Model: schemas.ModelRef{ID: "m"}},
	})
	return l
}

// deliver delivers the waiting messages, except those that keep holds back.
func (l *hamlet) deliver(keep schemas.CommandKind) {
	l.t.Helper()
	for {
		i := slices.IndexFunc(l.inbox, func(c schemas.Command) bool { return c.Data.CommandKind() != keep })
		if i < 0 {
			return
		}
		c := l.inbox[i]
		l.inbox = slices.Delete(l.inbox, i, i+1)
		if err := l.host.Deliver(l.t.Context(), c, nil); err != nil {
			l.t.Fatal(err)
		}
	}
}

// ring fires the timer of the session's sub-agents, once and before its time by the clock of the host, and returns the
// session's state after that.
func (l *hamlet) ring() *loop.State {
	l.t.Helper()
	timer, ok := l.bells["s1 "+schemas.TimerSubagents]
	if !ok {
		l.t.Fatalf("no timer among %v", l.bells)
	}
	delete(l.bells, "s1 "+schemas.TimerSubagents)
	if err := l.host.Deliver(l.t.Context(), looptest.Command("due", &timer), nil); err != nil {
		l.t.Fatal(err)
	}
	return l.states()["s1"]
}

// The host answers for a sub-agent that will never answer, and waits for one that will.
func TestLostSubagentIsAnsweredFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prompt string
		keep   schemas.CommandKind // that is not delivered
		lose   func(l *hamlet, child string)
		says   string
	}{
		"its session was deleted": {prompt: `agent {"prompt":"echo"}`, says: "deleted",
			lose: func(l *hamlet, child string) { l.gone[child] = true }},
		"its session was deleted, in the background": {prompt: `agent {"prompt":"echo","background":true}`, says: "deleted",
			lose: func(l *hamlet, child string) { l.gone[child] = true }},
		"its prompt was lost": {prompt: `agent {"prompt":"echo"}`, says: "deleted", keep: schemas.CommandSubagentPrompt,
			lose: func(l *hamlet, _ string) { l.inbox = nil }},
		"its result was lost": {prompt: `agent {"prompt":"hi"}`, says: "lost on its way", keep: schemas.CommandSubagentResult,
			lose: func(l *hamlet, _ string) { l.inbox = nil }},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			l := newHamlet(t)
			l.inbox = []schemas.Command{looptest.Command("p1", looptest.Prompt(c.prompt))}
			l.deliver(c.keep)
			waiting := l.ring()
			if len(waiting.Children) != 1 {
				t.Fatalf("%d sub-agents are waited for, nothing being lost", len(waiting.Children))
			}
			c.lose(l, waiting.Children[0].Start.Session)
			s := l.ring()
			if !s.Idle() || len(s.Children) > 0 {
				t.Fatalf("idle %t, with %d sub-agents", s.Idle(), len(s.Children))
			}
			results, messages := said(s)
			if all := strings.Join(append(results, messages...), "\n"); !strings.Contains(all, c.says) {
				t.Errorf("nothing says %q in %q", c.says, all)
			}
			if len(l.bells) > 0 {
				t.Errorf("timers are left: %v", l.bells)
			}
			seq := s.Seq
			late := lateResult(waiting)
			if err := l.host.Deliver(t.Context(), late, nil); err != nil {
				t.Fatal(err)
			}
			if now := l.states()["s1"].Seq; now != seq {
				t.Errorf("a late result added %d events", now-seq)
			}
		})
	}
}

// lateResult returns the result of the sub-agent that a session waited for.
func lateResult(waiting *loop.State) schemas.Command {
	link := waiting.Children[0].Link("s1")
	return looptest.Command(link.ResultID(), &schemas.SubagentResult{
		Call: link.Call, Nonce: link.Nonce, Session: waiting.Children[0].Start.Session, Text: "at last",
	})
}
