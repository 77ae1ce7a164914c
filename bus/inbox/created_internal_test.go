package inbox

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// skipping is a stream of a cluster. The first consumers that it creates skip the first messages.
type skipping struct {
	jetstream.Stream
	replicas, skips, made int
	away                  bool // the state of the stream cannot be had
}

func (s *skipping) Info(ctx context.Context, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	if s.away {
		return nil, natsio.ErrBehind
	}
	info, err := s.Stream.Info(ctx, opts...)
	if err == nil {
		info.Config.Replicas = s.replicas
	}
	return info, err
}

func (s *skipping) CreateConsumer(ctx context.Context, c jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	consumer, err := s.Stream.CreateConsumer(ctx, c)
	if s.made++; err != nil || s.made > s.skips {
		return consumer, err
	}
	if _, err = s.ResetConsumerToSequence(ctx, c.Durable, 4); err != nil {
		return nil, err
	}
	return s.Consumer(ctx, c.Durable)
}

// A consumer that does not count all that is stored is created again, before it has delivered anything.
func TestAConsumerThatSkipsIsCreatedAgain(t *testing.T) {
	t.Parallel()
	conn, in := newInbox(t)
	stream, err := conn.JetStream().Stream(t.Context(), schemas.StreamCommands)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 6 {
		subject := conn.Subjects().Command(fmt.Sprint("s", n), schemas.CommandSteer)
		if _, err := conn.JetStream().Publish(t.Context(), subject, []byte(`{"text":"x"}`)); err != nil {
			t.Fatal(err)
		}
	}
	for n, c := range []struct {
		replicas, skips int
		backlog         uint64
		made            int
	}{{3, 0, 6, 1}, {3, 2, 6, 3}, {3, 100, 3, maxCreated}, {1, 1, 3, 1}} {
		s := &skipping{Stream: stream, replicas: c.replicas, skips: c.skips}
		in.stream = s
		q, consumer := queue{in}, &reader.Consumer{Name: fmt.Sprint("r1_", n), Reads: []int{0, 1}}
		backlog, err := q.Create(t.Context(), consumer)
		if err != nil || backlog != c.backlog || s.made != c.made {
			t.Errorf("%d replicas, %d skip: %d messages, %d consumers, %v", c.replicas, c.skips, backlog, s.made, err)
		}
		if _, err := q.Delete(t.Context(), consumer.Name); err != nil {
			t.Fatal(err)
		}
	}
}

// A consumer is created without the comparison while no leader says what is stored: the runner has deleted its own
// before.
func TestAConsumerIsCreatedWithoutALeader(t *testing.T) {
	t.Parallel()
	conn, in := newInbox(t)
	stream, err := conn.JetStream().Stream(t.Context(), schemas.StreamCommands)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	in.o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := &skipping{Stream: stream, away: true}
	in.stream = s
	_, err = queue{in}.Create(t.Context(), &reader.Consumer{Name: "r1_0", Reads: []int{0, 1}})
	if err != nil || s.made != 1 || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("%d consumers, error %v, log:\n%s", s.made, err, &log)
	}
}
