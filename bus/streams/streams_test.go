package streams_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// Commands are stored under their partition, schedules under their own subject, and what a schedule sends is a command.
func TestInboxSubjects(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "acme.agents"} {
		t.Run("prefix "+prefix, func(t *testing.T) {
			t.Parallel()
			c, err := bus.Connect(bustest.Deadline(t), bus.ConnOptions{InProcess: bustest.Server(t), Prefix: prefix})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			if err := streams.Setup(bustest.Deadline(t), c, streams.Options{Partitions: 4}); err != nil {
				t.Fatal(err)
			}
			p := c.Subjects().Prefix()
			stream, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamCommands)
			if err != nil {
				t.Fatal(err)
			}
			publish := func(m *nats.Msg) string {
				t.Helper()
				ack, err := c.JetStream().PublishMsg(bustest.Deadline(t), m)
				if err != nil {
					t.Fatal(err)
				}
				stored, err := stream.GetMsg(bustest.Deadline(t), ack.Sequence)
				if err != nil {
					t.Fatal(err)
				}
				return stored.Subject
			}
			command := publish(&nats.Msg{Subject: c.Subjects().Command("s1", "prompt"), Data: []byte("hi")})
			if session, kind, err := c.Subjects().ParseCommand(command); err != nil || session != "s1" || kind != "prompt" ||
				strings.Count(command, ".") != strings.Count(p, ".")+4 {
				t.Errorf("command stored under %s: %s %s %v", command, session, kind, err)
			}
			timer := &nats.Msg{
				Subject: c.Subjects().Schedule("s1", "deadline"), Data: []byte(`{"name":"deadline"}`),
				Header: nats.Header{
					"Nats-Schedule":        {"@at " + time.Now().Add(200*time.Millisecond).UTC().Format(time.RFC3339Nano)},
					"Nats-Schedule-Target": {c.Subjects().Due("s1", "deadline")},
				},
			}
			if _, err := c.JetStream().PublishMsg(bustest.Deadline(t), timer); err != nil {
				t.Fatal(err)
			}
			fired := strings.TrimSuffix(command, "prompt") + "timer.deadline" // the session's partition
			bustest.Eventually(t, "the timer fires into "+fired, func() bool {
				m, err := stream.GetLastMsgForSubject(bustest.Deadline(t), fired)
				return err == nil && string(m.Data) == `{"name":"deadline"}`
			})
			if session, kind, err := c.Subjects().ParseCommand(fired); err != nil || session != "s1" || kind != "timer" {
				t.Errorf("timer stored under %s: %s %s %v", fired, session, kind, err)
			}
			if _, err := c.JetStream().Publish(bustest.Deadline(t), p+".cmd.0.s1.prompt", nil); err == nil {
				t.Error("somebody may choose the partition")
			}
		})
	}
}

func TestPartitionsAreUsed(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	for i := range 200 {
		if _, err := c.JetStream().Publish(bustest.Deadline(t), c.Subjects().Command(fmt.Sprintf("s%d", i), "abort"),
			nil); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamCommands)
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(bustest.Deadline(t), jetstream.WithSubjectFilter("agent.cmd.>"))
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[string]bool)
	for subject := range info.State.Subjects {
		used[strings.Split(subject, ".")[2]] = true
	}
	if len(used) < streams.DefaultPartitions/2 {
		t.Errorf("200 sessions fell into %d partitions", len(used))
	}
}

// Viewers get events and updates on one wildcard; the stream of updates does not get the events.
func TestLiveSubjects(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	view, err := c.NATS().SubscribeSync("agent.live.s1.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.NATS().Flush(); err != nil { // the events come over another connection
		t.Fatal(err)
	}
	header := nats.Header{"ce-id": {"s1/1"}}
	if _, err := c.Events().PublishMsg(bustest.Deadline(t),
		&nats.Msg{Subject: c.Subjects().Event("s1"), Header: header, Data: []byte("event")}); err != nil {
		t.Fatal(err)
	}
	if err := c.NATS().Publish(c.Subjects().LiveUpdate("s1"), []byte("update")); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for range 2 {
		m, err := view.NextMsgWithContext(bustest.Deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		got[m.Subject] = string(m.Data) + m.Header.Get("ce-id")
	}
	want := map[string]string{c.Subjects().LiveEvent("s1"): "events1/1", c.Subjects().LiveUpdate("s1"): "update"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("live (-want +got):\n%s", d)
	}
	s, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamUpdates)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the update is kept", func() bool {
		m, err := s.GetLastMsgForSubject(bustest.Deadline(t), c.Subjects().LiveUpdate("s1"))
		return err == nil && string(m.Data) == "update"
	})
	info, err := s.Info(bustest.Deadline(t))
	if err != nil || info.State.Msgs != 1 {
		t.Errorf("%d messages kept, %v", info.State.Msgs, err)
	}
}

// A log never loses its beginning: full, it refuses; and no single event can be deleted.
func TestLogKeepsEverything(t *testing.T) {
	t.Parallel()
	c := bustest.Connect(t, bustest.Server(t))
	if err := streams.Setup(bustest.Deadline(t), c, streams.Options{EventMaxBytes: 64 << 10}); err != nil {
		t.Fatal(err)
	}
	s, err := c.Events().Stream(bustest.Deadline(t), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for err == nil && n < 100 {
		_, err = c.Events().Publish(bustest.Deadline(t), c.Subjects().Event("s1"), make([]byte, 8<<10))
		n++
	}
	var full *jetstream.APIError
	if !errors.As(err, &full) || n < 4 {
		t.Fatalf("event %d: %v", n, err)
	}
	if err := s.DeleteMsg(bustest.Deadline(t), 2); err == nil {
		t.Error("an event was deleted")
	}
	if info, err := s.Info(bustest.Deadline(t)); err != nil || info.State.FirstSeq != 1 || info.State.Msgs != uint64(n-1) {
		t.Errorf("state %+v, %v", info.State, err)
	}
}

func TestBucketsWork(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	for _, bucket := range []string{schemas.BucketTools, schemas.BucketRunners} {
		kv, err := c.JetStream().KeyValue(bustest.Deadline(t), bucket)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Create(bustest.Deadline(t), "k", []byte("v"), jetstream.KeyTTL(time.Second)); err != nil {
			t.Fatal(err)
		}
		bustest.Eventually(t, "the entry of "+bucket+" expires", func() bool {
			_, err := kv.Get(bustest.Deadline(t), "k")
			return errors.Is(err, jetstream.ErrKeyNotFound)
		})
	}
	for _, bucket := range []string{schemas.BucketSnapshots, schemas.BucketProfiles} {
		kv, err := c.JetStream().KeyValue(bustest.Deadline(t), bucket)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Put(bustest.Deadline(t), "k", []byte("v")); err != nil {
			t.Error(err)
		}
	}
	blobs, err := c.JetStream().ObjectStore(bustest.Deadline(t), schemas.BucketBlobs)
	if err != nil {
		t.Fatal(err)
	}
	big := bytes.Repeat([]byte("x"), 3<<20)
	if _, err := blobs.PutBytes(bustest.Deadline(t), "big", big); err != nil {
		t.Fatal(err)
	}
	if got, err := blobs.GetBytes(bustest.Deadline(t), "big"); err != nil || !bytes.Equal(got, big) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
