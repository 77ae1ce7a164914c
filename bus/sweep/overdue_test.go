package sweep_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/bus/sweep"
	"github.com/loopbus/loopbus/schemas"
)

// limitStore sets how many bytes the streams of an account may store.
func limitStore(t *testing.T, srv *server.Server, bytes int64) {
	t.Helper()
	account, err := srv.LookupAccount("$G")
	if err == nil {
		err = account.UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": {MaxMemory: -1, MaxStore: bytes,
			MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1, MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// waiting returns how many messages are stored on a subject of the stream of timers.
func waiting(t *testing.T, c *bus.Conn, subject string) uint64 {
	t.Helper()
	s, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamTimers)
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(bustest.Deadline(t), jetstream.WithSubjectFilter(subject))
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	for _, of := range info.State.Subjects {
		n += of
	}
	return n
}

// A timer that was due while there was no room for its message fires once there is.
func TestTimersFireOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(),
		NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	c, err := bus.Connect(bustest.Deadline(t), bus.ConnOptions{InProcess: srv, Prefix: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := streams.Setup(bustest.Deadline(t), c, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	const late = time.Second
	due := time.Now().Add(time.Second)
	retry := schemas.Timer{Name: schemas.TimerRetry, RunID: "r1"}
	for _, session := range []string{"s1", "s2"} {
		if err := bus.NewTimers(c).Schedule(bustest.Deadline(t), session, due, retry); err != nil {
			t.Fatal(err)
		}
	}
	limitStore(t, srv, 1)
	bustest.Eventually(t, "the timers are overdue", func() bool { return time.Since(due) > 2*late })
	limitStore(t, srv, 4<<30)
	if n := waiting(t, c, "agent.sched.>"); n != 2 {
		t.Fatalf("%d timers are left", n)
	}
	later := time.Now().Add(time.Hour)
	if err := bus.NewTimers(c).Schedule(bustest.Deadline(t), "s3", later, retry); err != nil {
		t.Fatal(err)
	}
	if err := sweep.New(c, sweep.Options{}).FireOverdue(bustest.Deadline(t), late); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "both fire", func() bool { return bustest.Queued(t, c) == 2 })
	if n := waiting(t, c, "agent.sched.>"); n != 1 {
		t.Errorf("%d timers are left, want the one that is not due", n)
	}
}
