//go:build unix

package load_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// The bare round trip is the minimum of a call through work queues: a message is stored and delivered to a worker
// process, and its answer is stored and delivered back, with nats.go alone.
const (
	streamBare      = "LOAD_BARE"
	subjectBareCall = "bare.call"
	subjectBareDone = "bare.done"
	consumerBare    = "workers"
)

// serveBare answers bare calls.
func serveBare(ctx context.Context, conn *bus.Conn) (stop func(), err error) {
	js := conn.JetStream()
	_, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: streamBare, Subjects: []string{"bare.*"},
		Retention: jetstream.WorkQueuePolicy})
	if err != nil {
		return nil, err
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, streamBare,
		jetstream.ConsumerConfig{Durable: consumerBare, FilterSubject: subjectBareCall})
	if err != nil {
		return nil, err
	}
	serving, err := consumer.Consume(func(m jetstream.Msg) {
		if _, err := js.Publish(ctx, subjectBareDone, m.Data()); err == nil {
			_ = m.Ack() // a lost acknowledgement shows as an additional call
		}
	}, jetstream.PullMaxMessages(1))
	if err != nil {
		return nil, err
	}
	return serving.Stop, nil
}

// rounds is how often bare calls and those of sessions alternate, so that a drift of the machine affects both.
const rounds = 4

// measureLatency makes calls one by one: n bare ones, and n of sessions.
func measureLatency(t *testing.T, r *system.Runner, n int) {
	if n == 0 {
		return
	}
	bare := newBare(t, r.Conn)
	var bares, calls []time.Duration
	for round := range rounds {
		for range n / rounds {
			bares = append(bares, bare.call(t))
		}
		calls = append(calls, callsAlone(t, r, fmt.Sprintf("%s%d", aloneSession, round))...)
	}
	slices.Sort(bares)
	slices.Sort(calls)
	t.Logf("a call by itself: %s (median of %d; 90 %% within %s); the bare round trip: %s (%s); added: %s", median(calls),
		len(calls),
		calls[len(calls)*9/10], median(bares), bares[len(bares)*9/10], median(calls)-median(bares))
}

func median(sorted []time.Duration) time.Duration { return sorted[len(sorted)/2] }

// callsAlone runs a session that calls the tool many times, and returns the times from tool_execution_start to
// tool_execution_end in its log, without the first call.
func callsAlone(t *testing.T, r *system.Runner, session string) (took []time.Duration) {
	t.Helper()
	prompt(t, r, session)
	var begun time.Time
	for _, e := range bustest.Until(t, bustest.Client(t, r.Conn).Session(session), "the end of the run",
		system.Ends(1)) {
		switch e.Type() {
		case schemas.EventToolExecutionStart:
			begun = e.Time
		case schemas.EventToolExecutionEnd:
			took = append(took, e.Time.Sub(begun))
		}
	}
	return took[1:]
}

// bare makes bare calls.
type bare struct {
	js   jetstream.JetStream
	done chan struct{}
}

func newBare(t *testing.T, conn *bus.Conn) *bare {
	t.Helper()
	b := &bare{js: conn.JetStream(), done: make(chan struct{}, 1)}
	consumer, err := b.js.CreateOrUpdateConsumer(t.Context(), streamBare,
		jetstream.ConsumerConfig{Durable: "test", FilterSubject: subjectBareDone})
	if err != nil {
		t.Fatal(err)
	}
	listening, err := consumer.Consume(func(m jetstream.Msg) {
		_ = m.Ack()
		b.done <- struct{}{}
	}, jetstream.PullMaxMessages(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		listening.Stop()
		<-listening.Closed()
	})
	return b
}

func (b *bare) call(t *testing.T) time.Duration {
	t.Helper()
	begun := time.Now()
	if _, err := b.js.PublishMsg(t.Context(), nats.NewMsg(subjectBareCall)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-b.done:
	case <-time.After(system.Deadline):
		t.Fatal("a bare call was not answered")
	}
	return time.Since(begun)
}
