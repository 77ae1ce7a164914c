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

func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools keep what they have through one
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
