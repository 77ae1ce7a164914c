package client_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// What slow readers have in memory is bounded for all of them together, live and while they read the log, and each
// still gets every event. The test is not parallel, because it measures the heap.
func TestSlowReadersTogetherAreBounded(t *testing.T) {
	const (
		readers, events = 20, 12 // less than 64 MiB, at which the server ends the connection
		limit           = 1 << 20
		yielded         = 3 * 240 << 10 // of a reader: the message, its decoded event and what is made of it
	)
	large := &schemas.ErrorEvent{Code: "large", Message: strings.Repeat("x", 240<<10)}
	for name, stored := range map[string]bool{"live": false, "stored": true} {
		t.Run(name, func(t *testing.T) {
			server, a, _ := start(t)
			c := connect(t, server.ClientURL())
			c.ReadAhead(limit)
			a.commit(&schemas.QueueUpdate{})
			commit := func() {
				for range events {
					a.commit(large)
				}
			}
			if stored {
				commit()
			}
			before := heap()
			var all []*watching
			for range readers {
				w := watch(t, c.Session("s1"), 1)
				all = append(all, w)
				w.want("1 queue_update")
			}
			if !stored {
				commit()
			}
			if err := c.NATS().FlushWithContext(bustest.Deadline(t)); err != nil {
				t.Fatal(err)
			}
			n, most := 0, limit+readers*yielded // the server has buffers for a moment, too
			for until := time.Now().Add(5 * time.Second); time.Now().Before(until); {
				if n = heap() - before; n <= most {
					break
				}
			}
			if t.Logf("%d readers have %d KiB, at most %d", readers, n>>10, most>>10); n > most {
				t.Error("they have too much")
			}
			for _, w := range all {
				for n := range events {
					w.want(fmt.Sprintf("%d error", n+2))
				}
			}
			a.commit(&schemas.QueueUpdate{})
			for _, w := range all {
				w.want(fmt.Sprintf("%d queue_update", events+2))
				w.stop()
			}
			bustest.Eventually(t, "nothing is held", c.Idle)
		})
	}
}

// The server sends what happens in a session once to a client, however many of its loops follow the session. The
// subscription ends with the last of them.
func TestFollowersShareTheLiveFeed(t *testing.T) {
	t.Parallel()
	const followers = 30
	server, a, _ := start(t)
	c := connect(t, server.ClientURL())
	subscriptions := c.NATS().NumSubscriptions()
	a.commit(&schemas.QueueUpdate{})
	all := make([]*watching, followers)
	for i := range all {
		all[i] = watch(t, c.Session("s1"), 1)
		all[i].want("1 queue_update")
	}
	all[0].stop() // the others go on
	large := &schemas.ErrorEvent{Code: "large", Message: strings.Repeat("x", 240<<10)}
	bustest.Eventually(t, "an event is sent once, when all listen", func() bool {
		before := c.NATS().Stats().InBytes
		seq := a.commit(large)
		for _, w := range all[1:] {
			w.want(fmt.Sprintf("%d error", seq))
		}
		return c.NATS().Stats().InBytes-before < 2*240<<10
	})
	for _, w := range all[1:] {
		w.stop()
	}
	bustest.Eventually(t, "the subscription has ended", func() bool {
		return c.NATS().NumSubscriptions() <= subscriptions+1 // that of requests stays
	})
	seq := a.commit(&schemas.TurnStart{})
	watch(t, c.Session("s1"), seq).want(fmt.Sprintf("%d turn_start", seq))
}

func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools keep what they have through one
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
