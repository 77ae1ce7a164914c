package index_test

import (
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
)

// An index whose server was away says so until it has what was stored meanwhile, which takes a moment. Then it follows
// the bucket as before.
func TestAnIndexIsPartialFromALostConnectionUntilItIsCurrent(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), bustest.FreePort(t)
	start := func(o embedded.Options) *embedded.Server {
		t.Helper()
		o.StoreDir = dir
		s, err := embedded.Start(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Shutdown)
		return s
	}
	follower := func(o bus.ConnOptions) (*rig, *index.Index) {
		t.Helper()
		r := &rig{t: t, conn: bustest.Dial(t, o)}
		bustest.Setup(t, r.conn, streams.Options{Partitions: bustest.SmallPartitions})
		var err error
		if r.store, err = eventstore.New(r.conn.Events(), eventstore.Options{}); err != nil {
			t.Fatal(err)
		}
		ix := r.open(never(r.quick()))
		bustest.Eventually(t, "the index is current", func() bool { return !ix.View().Partial })
		return r, ix
	}
	s := start(embedded.Options{Listen: addr})
	r, ix := follower(bus.ConnOptions{URL: "nats://" + addr})
	for _, id := range []string{"first", "second"} {
		s.Shutdown()
		bustest.Eventually(t, "the connection is down", func() bool { return !r.conn.NATS().IsConnected() })
		if !ix.View().Partial {
			t.Error("the list is not partial, and its server is away")
		}
		away := start(embedded.Options{InProcessOnly: true}) // the index cannot reach it
		begun := time.Now()
		other, writer := follower(bus.ConnOptions{InProcess: away})
		usual := time.Since(begun) // what a new index takes on this machine, now
		other.session(writer, id).say(turn(1, "while it was away")...)
		reaches(t, writer, id, 8)
		writer.Close()
		other.conn.Close()
		away.Shutdown()

		s = start(embedded.Options{Listen: addr})
		bustest.Eventually(t, "the connections are up", r.conn.Connected)
		up := time.Now()
		bustest.Eventually(t, "the index is current again", func() bool {
			v := ix.View()
			if !v.Partial && ix.Get(id) == nil {
				t.Fatalf("the list lacks session %s and is not partial, %v after the server was back", id, time.Since(up))
			}
			return !v.Partial
		})
		current := time.Since(up)
		r.session(ix, id).say(turn(2, "followed")...)
		said := time.Since(up)
		reaches(t, ix, id, 16)
		if took := time.Since(up); took > 5*time.Second+2*usual {
			t.Errorf("the server was back, and the index was current after %v, a session had more after %v, and its entry "+
				"was received after %v", current, said, took)
		}
	}
}
