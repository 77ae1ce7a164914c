//go:build unix

package cluster_test

import (
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/integration/internal/cluster"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// theBoundOfASubject sends more commands of a kind to a session than may wait there, many concurrently, to three
// servers with a replica each. All acknowledged commands are stored, and the others are refused. Timers are still
// stored.
func theBoundOfASubject(t *testing.T, c *cluster.Cluster) {
	const most, sent = 1000, 1200
	conn := system.Connect(t, c.URL(), "sender")
	js := conn.JetStream()
	var acked, refused atomic.Int64
	var all errgroup.Group
	all.SetLimit(64)
	for _, kind := range []schemas.CommandKind{schemas.CommandAbort, schemas.CommandTimer} {
		subject := conn.Subjects().Command("s1", kind)
		for range sent {
			all.Go(func() error {
				_, err := js.Publish(t.Context(), subject, []byte("{}"))
				switch {
				case err == nil:
					acked.Add(1)
				case natsio.NoRoom(err):
					refused.Add(1)
				default:
					return err
				}
				return nil
			})
		}
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	if acked.Load() != 2*most || refused.Load() != 2*(sent-most) {
		t.Errorf("%d acknowledged, %d refused", acked.Load(), refused.Load())
	}
	if _, err := js.Publish(t.Context(), conn.Subjects().Due("s2", "a-x"), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), schemas.StreamCommands)
	if err != nil {
		t.Fatal(err)
	}
	stored := func(filter string) (n uint64, first uint64) {
		info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(filter))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range info.State.Subjects {
			n += m
		}
		return n, info.State.FirstSeq
	}
	system.Eventually(t, "the timer of another session is in the inbox", func() bool {
		n, _ := stored("agent.cmd.*.s2.timer.*")
		return n == 1
	})
	if n, first := stored("agent.cmd.*.s1.*"); n != 2*most || first != 1 {
		t.Errorf("%d messages are stored, from %d on", n, first)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
}
