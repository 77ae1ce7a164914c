package host_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// watchedLog calls closed when it is closed.
type watchedLog struct {
	host.SessionLog
	closed func()
}

func (l watchedLog) Close() {
	l.SessionLog.Close()
	l.closed()
}

// A runner is suspended just after it has read in the parent's log that a sub-agent is to begin. Another runner aborts
// the parent meanwhile, and dies somewhere. A sub-agent for which a runner has answered never begins: its parent would
// not count what it uses.
func TestASubagentThatWasAnsweredForDoesNotBegin(t *testing.T) {
	t.Parallel()
	play := func(at int, after bool) (points int) {
		v := &village{t: t, store: eventstore.NewMemory()}
		first := v.process(looptest.ModelFunc(scripted))
		begin := looptest.Command("p1", looptest.Prompt(`agent {"prompt":"hi"}`))
		if err := first.Deliver(t.Context(), begin, nil); err != nil {
			t.Fatal(err)
		}
		prompt := v.inbox[0]
		meanwhile := sync.OnceFunc(func() {
			v.points, v.at, v.after = 0, at, after
			h := v.process(looptest.ModelFunc(scripted))
			v.inbox = append(v.inbox, looptest.Command("a1", new(schemas.Abort)))
			for len(v.inbox) > 1 && !v.dead.Load() {
				if err := h.Deliver(t.Context(), v.inbox[1], nil); err == nil {
					v.inbox = slices.Delete(v.inbox, 1, 2)
				} else if !v.dead.Load() {
					t.Fatal(err)
				}
			}
			points, v.at = v.points, 0
			v.dead.Store(false)
		})
		watch := func(session string, log host.SessionLog) host.SessionLog {
			if session == "s1" {
				return watchedLog{log, meanwhile}
			}
			return log
		}
		suspended := host.New(v.options(looptest.ModelFunc(scripted), watch))
		if err := suspended.Deliver(t.Context(), prompt, nil); err == nil {
			v.inbox = slices.Delete(v.inbox, 0, 1)
		}
		v.live(looptest.ModelFunc(scripted), v.inbox)
		v.check()
		for _, e := range v.events("s1") {
			if d, ok := e.Data.(*schemas.SubagentEnd); ok {
				used := v.states()[d.Session].Usage.TotalTokens
				if used != d.Usage.TotalTokens {
					t.Errorf("died at point %d, after it: %v: it has used %d tokens, its parent counts %d", at, after, used,
						d.Usage.TotalTokens)
				}
			}
		}
		return points
	}
	points := play(0, false)
	if points < 5 {
		t.Fatalf("%d points", points)
	}
	for at := 1; at <= points; at++ {
		play(at, false)
		play(at, true)
	}
}
