//go:build unix

package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/integration/internal/cluster"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// A writer does not learn the end of the log from a replica that is behind: its first append would be refused.
func TestAWriterDoesNotBeginBehind(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Severable: true})
	setup := system.Connect(t, c.URL(), "setup")
	if err := streams.Setup(t.Context(), setup, replicated); err != nil {
		t.Fatal(err)
	}
	leader := c.LeaderOf(setup, schemas.StreamEvents)
	behind := (leader + 1) % c.Size()
	store, stale := storeOn(t, c.URLOf(leader)), storeOn(t, c.URLOf(behind))
	log := open(t, store, "s1")
	write(t, log, 1, 3)
	// Another replica answers for one that is not current.
	system.Eventually(t, "the replicas are current", func() bool { return current(t, setup, schemas.StreamEvents) })
	system.Eventually(t, "the replica has the log", func() bool { return len(system.LogOf(t, stale, "s1")) == 3 })

	c.Isolate(behind)
	write(t, log, 4, 5)
	if n := len(system.LogOf(t, stale, "s1")); n != 3 {
		t.Fatalf("the replica that is cut off has %d events", n)
	}
	opened := make(chan *eventstore.Log, 1)
	system.Serve(t, func(context.Context) error {
		log, err := stale.Open(t.Context(), "s1")
		opened <- log
		return err
	})
	c.Heal(behind)
	select {
	case log = <-opened:
	case <-time.After(system.Deadline):
		t.Fatal("the log was not opened")
	}
	if log != nil {
		defer log.Close()
		write(t, log, 6, 6)
		system.Verify(t, stale, "s1")
	}
}

// current reports whether all replicas of a stream have all messages of its leader.
func current(t *testing.T, conn *bus.Conn, stream string) bool {
	t.Helper()
	s, err := conn.JetStream().Stream(t.Context(), stream)
	if err != nil || s.CachedInfo().Cluster == nil {
		return false // during an election
	}
	for _, replica := range s.CachedInfo().Cluster.Replicas {
		if !replica.Current || replica.Lag > 0 {
			return false
		}
	}
	return true
}

func open(t *testing.T, store *eventstore.Store, session string) *eventstore.Log {
	t.Helper()
	log, err := store.Open(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	return log
}

// write appends events from one sequence to another.
func write(t testing.TB, log *eventstore.Log, from, to uint64) {
	t.Helper()
	for seq := from; seq <= to; seq++ {
		err := log.Append(t.Context(), schemas.Event{
			Session: "s1", Seq: seq, Time: time.Now(), Source: "/loopbus/runner/test",
			Data: &schemas.ErrorEvent{Code: "test", Message: "an event", Recoverable: true},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}
