package queries_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/queries"
	"github.com/loopbus/loopbus/schemas"
)

// counted is a view that others wait for, until there are more of them than there may be.
type counted struct {
	queries.View
	alive *atomic.Int32
	most  int32
	wait  func(tooMany func() bool)
}

func (c counted) State() schemas.SessionState {
	defer c.alive.Add(-1)
	c.wait(func() bool { return c.alive.Load() > c.most })
	return c.View.State()
}

// Views of sessions are in memory only while their logs may be read: those may be large, and queries many.
func TestViewsAtOnceAreFew(t *testing.T) {
	t.Parallel()
	const most = 4 // readers of the index
	r := newRig(t)
	var alive atomic.Int32
	var seen atomic.Bool
	r.viewed = func(v queries.View) queries.View {
		alive.Add(1)
		return counted{v, &alive, most, func(tooMany func() bool) {
			for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
				if tooMany() {
					seen.Store(true)
					return
				}
			}
		}}
	}
	const n = 3 * most
	for i := range n {
		r.session(nil, fmt.Sprint("s", i)).run("p1", "hello", "there")
	}
	ix, _ := r.runner()
	whole(t, ix, n)
	var all sync.WaitGroup
	for i := range n {
		for _, kind := range []schemas.QueryKind{schemas.QueryState, schemas.QueryTree} {
			all.Go(func() { r.request(r.conn.Subjects().Query(fmt.Sprint("s", i), kind), "{}") })
		}
	}
	all.Wait()
	if seen.Load() || alive.Load() != 0 {
		t.Errorf("more than %d views at once: %v, and %d are left", most, seen.Load(), alive.Load())
	}
}
