package eventstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/natsio"
)

// connWatch wakes the waiters for an answer when the connection has changed: the answer may be lost.
type connWatch struct {
	mu sync.Mutex
	ch chan struct{} // closed at the next change
}

// watchConn watches until the connection is closed. lost is called whenever it went down.
func watchConn(nc *nats.Conn, lost func()) *connWatch {
	w := &connWatch{ch: make(chan struct{})}
	status := nc.StatusChanged()
	go func() {
		defer nc.RemoveStatusListener(status)
		for !nc.IsClosed() {
			if <-status != nats.CONNECTED {
				lost()
			}
			w.broadcast()
		}
		lost()
		w.broadcast()
	}()
	return w
}

func (w *connWatch) broadcast() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.ch)
	w.ch = make(chan struct{})
}

// changed returns a channel that is closed when the connection next goes down or comes back.
func (w *connWatch) changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ch
}

// Bounds of the pause between two attempts to reach the server.
const (
	minPause = 5 * time.Millisecond
	maxPause = 250 * time.Millisecond
)

// retry calls f until it succeeds, fails for good, ctx ends or OutcomeTimeout has passed.
func (s *Store) retry(ctx context.Context, f func(ctx context.Context) error) error {
	all, cancel := context.WithTimeout(ctx, s.o.OutcomeTimeout)
	defer cancel()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := s.attempt(all, f)
		if err == nil || !natsio.Passing(err) || all.Err() != nil {
			return err
		}
		s.pause(all, pause)
	}
}

// attempt calls f once, with AppendTimeout to finish. A change of the connection ends it early: the client library
// would wait for an answer that went with the old connection.
func (s *Store) attempt(ctx context.Context, f func(ctx context.Context) error) error {
	lost, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	one, cancel := context.WithTimeout(lost, s.o.AppendTimeout)
	defer cancel()
	changed := s.watch.changed()
	go func() {
		select {
		case <-changed:
			lose(nats.ErrDisconnected)
		case <-one.Done():
		}
	}()
	err := f(one)
	if err != nil && errors.Is(context.Cause(one), nats.ErrDisconnected) {
		return nats.ErrDisconnected
	}
	return err
}

// pause waits for a while, for a change of the connection or for the end of ctx.
func (s *Store) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-s.watch.changed():
	}
}
