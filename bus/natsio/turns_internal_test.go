package natsio

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Who waits gets its turn in the order in which it came, and waits only for others of its key. Nothing is kept of a key
// that nobody uses.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns, got := NewTurns[string](10), make(chan int, 3)
		take := func(key string, n int) func() {
			release, err := turns.Wait(t.Context(), key, n)
			if err != nil {
				t.Fatal(err)
			}
			return release
		}
		first := take("a", 100) // all of them
		for n, units := range []int{10, 1, 9} {
			go func() {
				defer take("a", units)()
				got <- n
			}()
			synctest.Wait()
		}
		take("b", 10)()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := turns.Wait(ctx, "a", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that has gone: %v", err)
		}
		if len(got) > 0 || turns.Idle() {
			t.Errorf("%d had their turn before the first one's end", len(got))
		}
		first()
		first()
		synctest.Wait()
		if a, b, c := <-got, <-got, <-got; a != 0 || b+c != 3 || !turns.Idle() { // the last two fit together
			t.Errorf("turns %d, %d, %d; is anything left: %v", a, b, c, !turns.Idle())
		}
	})
}

// consumer is a consumer of a server that sends one chunk each time that every has passed.
type consumer struct {
	jetstream.Consumer
	every time.Duration
	sent  uint64
}

type chunk struct {
	jetstream.Msg
	seq uint64
}

func (c chunk) Data() []byte { return []byte("x") }

func (c chunk) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{Sequence: jetstream.SequencePair{Consumer: c.seq}}, nil
}

type chunks chan jetstream.Msg

func (c chunks) Messages() <-chan jetstream.Msg { return c }
func (c chunks) Error() error                   { return nil }

func (c *consumer) Fetch(n int, _ ...jetstream.FetchOpt) (jetstream.MessageBatch, error) {
	batch := make(chunks)
	go func() {
		defer close(batch)
		for range n {
			time.Sleep(c.every)
			c.sent++
			batch <- chunk{seq: c.sent}
		}
	}()
	return batch, nil
}

// A reader may wait for its turn, and an object may take, as long as need be, if only the server is not silent. Readers
// of another connection do not wait.
func TestALargeObjectTakesItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nc := new(nats.Conn)
		release, err := Reserve(t.Context(), nc, maxRequested)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Hour, release)
		other, err := Reserve(t.Context(), new(nats.Conn), maxRequested)
		if err != nil {
			t.Fatal(err)
		}
		other()
		begun, r := time.Now(), objectReader{nc: nc, consumer: &consumer{every: objectWait / 2}}
		err = r.fetch(t.Context(), objectBatch)
		if took := time.Since(begun); err != nil || r.chunks != objectBatch || took < time.Hour+objectBatch*objectWait/2 {
			t.Errorf("%d chunks after %s: %v", r.chunks, took, err)
		}
	})
}
