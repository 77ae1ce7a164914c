package streams_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// mostPerSubject is how many commands of a kind an inbox holds of a session.
const mostPerSubject = 1000

// fill publishes commands until n are stored, several at once.
func fill(t *testing.T, c *bus.Conn, subject string, n int) {
	t.Helper()
	var all errgroup.Group
	all.SetLimit(16)
	for range n {
		all.Go(func() error {
			_, err := c.JetStream().Publish(bustest.Deadline(t), subject, []byte("{}"))
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
}

func publish(t *testing.T, c *bus.Conn, subject string, o ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	t.Helper()
	return c.JetStream().Publish(bustest.Deadline(t), subject, []byte("{}"), o...)
}

// Who sends too many commands of a kind to a session is refused alone: other kinds and sessions are not, and neither
// are timers, those of that session included, although somebody has filled what timers were sent to once. What was
// refused is no duplicate of itself, and what was stored is known as one while there is no room.
func TestOneSenderIsRefusedAlone(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	for _, kind := range []schemas.CommandKind{schemas.CommandAbort, schemas.CommandTimer} {
		subject := c.Subjects().Command("s1", kind)
		fill(t, c, subject, mostPerSubject-1)
		if _, err := publish(t, c, subject, jetstream.WithMsgID("last-"+string(kind))); err != nil {
			t.Fatal(err)
		}
		if _, err := publish(t, c, subject, jetstream.WithMsgID("more-"+string(kind))); !natsio.NoRoom(err) {
			t.Errorf("one too many: %v", err)
		}
		if ack, err := publish(t, c, subject, jetstream.WithMsgID("last-"+string(kind))); err != nil || !ack.Duplicate {
			t.Errorf("a repetition while it is full: %+v, %v", ack, err)
		}
	}
	for _, subject := range []string{c.Subjects().Command("s1", schemas.CommandPrompt),
		c.Subjects().Command("s2", schemas.CommandAbort), c.Subjects().Due("s1", "a-x"), c.Subjects().Due("s2", "b-y")} {
		if _, err := publish(t, c, subject); err != nil {
			t.Errorf("%s: %v", subject, err)
		}
	}
	stream, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamCommands)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the timers of both sessions are in the inbox", func() bool {
		info, err := stream.Info(bustest.Deadline(t), jetstream.WithSubjectFilter("agent.cmd.*.*.timer.*"))
		return err == nil && len(info.State.Subjects) == 2
	})
	if err := stream.Purge(bustest.Deadline(t), jetstream.WithPurgeSubject("agent.cmd.*.s1.abort")); err != nil {
		t.Fatal(err)
	}
	ack, err := publish(t, c, c.Subjects().Command("s1", schemas.CommandAbort), jetstream.WithMsgID("more-abort"))
	if err != nil || ack.Duplicate {
		t.Errorf("sent again when there is room: %+v, %v", ack, err)
	}
}

// inboxOfBefore makes an inbox as versions had it before the bound, where what is due goes to one subject.
func inboxOfBefore(t *testing.T, c *bus.Conn) {
	t.Helper()
	bustest.Setup(t, c, streams.Options{})
	cfg := configOf(t, c, schemas.StreamCommands)
	if err := c.JetStream().DeleteStream(bustest.Deadline(t), cfg.Name); err != nil {
		t.Fatal(err)
	}
	cfg.MaxMsgsPerSubject, cfg.DiscardNewPerSubject = -1, false
	cfg.Sources[0].SubjectTransforms[0].Destination = "agent.cmd.{{partition(64,1)}}.{{wildcard(1)}}.timer"
	if _, err := c.JetStream().CreateStream(bustest.Deadline(t), cfg); err != nil {
		t.Fatal(err)
	}
}

// An inbox of before gets the bound once nothing would be lost by it: a server drops the oldest messages of a subject
// that has too many.
func TestExistingInboxGetsLimitPerSubject(t *testing.T) {
	t.Parallel()
	c := bustest.Connect(t, bustest.Server(t))
	inboxOfBefore(t, c)
	subject := c.Subjects().Command("s1", schemas.CommandAbort)
	fill(t, c, subject, mostPerSubject+1)
	bustest.Setup(t, c, streams.Options{})
	if n := bustest.Queued(t, c); n != mostPerSubject+1 {
		t.Errorf("%d messages are left", n)
	}
	if cfg := configOf(t, c, schemas.StreamCommands); cfg.MaxMsgsPerSubject > 0 || cfg.DiscardNewPerSubject {
		t.Errorf("it has a bound of %d", cfg.MaxMsgsPerSubject)
	}
	if _, err := publish(t, c, c.Subjects().Due("s1", "a-x")); err != nil {
		t.Fatal(err)
	}
	stream, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamCommands)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "what is due has its own subject", func() bool {
		info, err := stream.Info(bustest.Deadline(t), jetstream.WithSubjectFilter("agent.cmd.*.s1.timer.a-x"))
		return err == nil && len(info.State.Subjects) == 1
	})
	if err := stream.Purge(bustest.Deadline(t), jetstream.WithPurgeSubject("agent.cmd.*.s1.abort"),
		jetstream.WithPurgeKeep(mostPerSubject/2)); err != nil {
		t.Fatal(err)
	}
	bustest.Setup(t, c, streams.Options{})
	cfg := configOf(t, c, schemas.StreamCommands)
	if cfg.MaxMsgsPerSubject != mostPerSubject || !cfg.DiscardNewPerSubject {
		t.Errorf("its bound is %d", cfg.MaxMsgsPerSubject)
	}
	if n := bustest.Queued(t, c); n != mostPerSubject/2+1 {
		t.Errorf("%d messages are left", n)
	}
	cfg.MaxMsgsPerSubject = 5 * mostPerSubject
	if _, err := c.JetStream().UpdateStream(bustest.Deadline(t), cfg); err != nil {
		t.Fatal(err)
	}
	bustest.Setup(t, c, streams.Options{})
	if n := configOf(t, c, schemas.StreamCommands).MaxMsgsPerSubject; n != 5*mostPerSubject {
		t.Errorf("an operator's number became %d", n)
	}
}
