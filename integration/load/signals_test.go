//go:build unix

package load_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/integration/internal/system"
)

// once closes c at the first message.
func once(c chan struct{}) nats.MsgHandler {
	var first sync.Once
	return func(*nats.Msg) { first.Do(func() { close(c) }) }
}

// rendezvous publishes that a worker has arrived until it receives the message that it waits for.
func rendezvous(ctx context.Context, conn *bus.Conn, word, come, id string) error {
	heard := make(chan struct{})
	sub, err := conn.NATS().Subscribe(word, once(heard))
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := conn.NATS().Flush(); err != nil { // so that the message cannot be sent before the subscription exists
		return err
	}
	if err := conn.NATS().Publish(come, []byte(id)); err != nil {
		return err
	}
	select {
	case <-heard:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen sends the messages of a subject to c.
func listen(t *testing.T, conn *bus.Conn, subject string, c chan<- string) {
	t.Helper()
	sub, err := conn.NATS().Subscribe(subject, func(m *nats.Msg) { c <- string(m.Data) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := conn.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
}

// say publishes a message.
func say(t *testing.T, conn *bus.Conn, subject string) {
	t.Helper()
	if err := conn.NATS().Publish(subject, nil); err != nil {
		t.Fatal(err)
	}
}

// await receives n values.
func await[T any](t testing.TB, c <-chan T, n int, what string) {
	t.Helper()
	// A run of thousands of calls may take longer than a single step.
	limit := time.After(4 * system.Deadline)
	for i := range n {
		select {
		case <-c:
		case <-limit:
			t.Fatalf("%d of %d %s", i, n, what)
		}
	}
}
