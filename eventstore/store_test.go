package eventstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

func TestNewWantsNoReconnectBuffer(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir(), -1)
	js := connect(t, server.ClientURL(), nats.ReconnectBufSize(0)) // 0 is the library's default size
	if _, err := eventstore.New(js, eventstore.Options{}); err == nil ||
		!strings.Contains(err.Error(), "nats.ReconnectBufSize(-1)") {
		t.Errorf("new: %v", err)
	}
}

// Logs at rest hold no goroutine, subscription or timer.
func TestLogAtRestHoldsNoResources(t *testing.T) {
	s, js := newJetStream(t, eventstore.Options{})
	mustAppend(t, open(t, s, "warm"), event("warm", 1, "a"))
	goroutines, subs := runtime.NumGoroutine(), js.Conn().NumSubscriptions()
	for i := range 300 {
		name := fmt.Sprintf("s%d", i)
		mustAppend(t, open(t, s, name), event(name, 1, "a"))
	}
	if got := js.Conn().NumSubscriptions(); got != subs {
		t.Errorf("%d subscriptions, %d before", got, subs)
	}
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// Append waits while the queue is full, and no longer than its context; the queue is bounded by bytes too.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size, want int
	}{{10, 256}, {200 << 10, 21}} {
		f := newFaulty(t, eventstore.Options{})
		l := open(t, f.store, "s1")
		f.proxy.loseUp.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		n := 0
		var err error
		for err == nil {
			e := event("s1", uint64(n+1), "a")
			e.Data = &schemas.ErrorEvent{Code: "x", Message: strings.Repeat("x", c.size)}
			if err = l.Append(ctx, e); err == nil {
				n++
			}
		}
		if !errors.Is(err, context.DeadlineExceeded) || n != c.want {
			t.Errorf("%d events of %d bytes queued, want %d: %v", n, c.size, c.want, err)
		}
		f.proxy.cut()
		mustAppend(t, l, event("s1", uint64(n+1), "a")) // it was not final
		mustVerify(t, f.direct, "s1", uint64(n+1))
	}
}

// Equal payloads of one writer are stored once. Sessions share no payloads.
func TestBlobStoredOnce(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{})
	for _, name := range []string{"s1", "s2", "s3"} {
		l := open(t, s, name)
		mustAppend(t, l, bigEvent(name, 1), bigEvent(name, 2))
		mustVerify(t, s, name, 2)
	}
	bucket, err := js.ObjectStore(t.Context(), schemas.BucketBlobs)
	if err != nil {
		t.Fatal(err)
	}
	if objects, err := bucket.List(t.Context()); len(objects) != 3 || err != nil {
		t.Errorf("%d objects: %v", len(objects), err)
	}
}

// A refusal of the server for any other reason than a conflict is final, and is not a conflict.
func TestRefusedByTheServer(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{})
	l := open(t, s, "s1")
	mustAppend(t, l, event("s1", 1, "a"))
	stream, err := js.Stream(t.Context(), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.MaxMsgSize = 100
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	err = appendAll(ctxOf(t), l, event("s1", 2, "a"))
	var api *jetstream.APIError
	if !errors.As(err, &api) || errors.Is(err, schemas.ErrConflict) || !strings.Contains(err.Error(), "session s1 seq 2") {
		t.Errorf("append: %v", err)
	}
}
