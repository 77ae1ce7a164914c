package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

var errOutcome = errors.New("outcome unknown")

// lose is the store's hook: sometimes the writer never learns whether a commit was stored.
func (w *world) lose(events []schemas.Event, stored bool) error {
	if stored {
		for _, e := range events {
			w.stored(e)
		}
	}
	r := w.draw(fmt.Sprintf("%s outcome %s %t", events[0].Source, events[0].Session, stored))
	if w.faulty() && r.permille(4) {
		return errOutcome
	}
	return nil
}

// farLog is a session's log behind a network. It stores one commit after the other, in the background.
type farLog struct {
	*process
	session string
	mem     *eventstore.Log

	mu      sync.Mutex
	queue   []schemas.Event // appended and not stored yet
	sending bool            // a commit is in flight; the queue is sent after it
	head    uint64          // last event known to be stored
	proven  time.Time       // when the newest stored event was sent
	changed chan struct{}   // closed when any of these changes
	err     error
}

var _ host.SessionLog = (*farLog)(nil)

// openLog opens a session's log for a process.
func (p *process) openLog(ctx context.Context, session string) (*farLog, error) {
	return ask(ctx, p, "open "+session, func() (*farLog, error) {
		mem, err := p.store.Open(context.Background(), session)
		if err != nil {
			return nil, err
		}
		l := &farLog{process: p, session: session, mem: mem, changed: make(chan struct{})}
		l.head = p.stateOf(session).Seq
		return l, nil
	})
}

// Append adds an event to the queue.
func (l *farLog) Append(_ context.Context, e schemas.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.queue = append(l.queue, e)
	return nil
}

// Send stores the queue in the background.
func (l *farLog) Send() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.sending && l.err == nil && len(l.queue) > 0 {
		l.sending = true
		go l.sendAll()
	}
}

func (l *farLog) sendAll() {
	for {
		l.mu.Lock()
		if l.sending = l.err == nil && len(l.queue) > 0; !l.sending {
			l.mu.Unlock()
			return
		}
		commit := l.queue
		l.mu.Unlock()
		sent, err := l.store(commit)
		l.mu.Lock()
		switch {
		case l.err != nil:
		case err != nil:
			l.fail(err)
		default:
			l.queue, l.head, l.proven = l.queue[len(commit):], commit[len(commit)-1].Seq, sent
			l.change()
		}
		l.mu.Unlock()
	}
}

// store stores a commit. A late answer costs time only: the log reads back, and sends the commit again if it was lost.
func (l *farLog) store(commit []schemas.Event) (sent time.Time, err error) {
	if err := l.pass("log " + l.session); err != nil {
		return sent, err
	}
	r := l.draw(l.name + " append " + l.session)
	there, back := r.latency(), r.latency()
	if l.faulty() {
		switch {
		case r.permille(15):
			there += r.between(0, 5*time.Second) // slow, or lost and sent again
		case r.permille(15):
			back += r.between(time.Second, 5*time.Second) // the answer was lost, and the commit read back
		}
	}
	sent = processClock{l.process}.Now()
	stored := make(chan error, 1)
	time.AfterFunc(there, func() {
		var err error
		for _, e := range commit {
			err = errors.Join(err, l.mem.Append(context.Background(), e))
		}
		stored <- errors.Join(err, l.mem.Flush(context.Background()))
	})
	err = <-stored
	time.Sleep(back)
	if dead := l.pass("log " + l.session); dead != nil {
		return sent, dead
	}
	return sent, err
}

// change wakes all waiting goroutines. The caller holds the lock.
func (l *farLog) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// fail ends the log with an error. The caller holds the lock.
func (l *farLog) fail(err error) {
	if l.err == nil {
		l.err = err
		l.change()
	}
}

// until waits until done, which it calls with the lock held, returns true, or the log has failed.
func (l *farLog) until(ctx context.Context, done func() bool) error {
	for {
		l.mu.Lock()
		err, changed := l.err, l.changed
		ok := err == nil && done()
		l.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Flush waits until all appended events are stored.
func (l *farLog) Flush(ctx context.Context) error {
	l.Send()
	l.mu.Lock()
	last := l.head + uint64(len(l.queue))
	l.mu.Unlock()
	return l.until(ctx, func() bool { return l.head >= last })
}

// Confirm returns once an event that was sent since is stored, or compares the end of the log.
func (l *farLog) Confirm(ctx context.Context, since time.Time) error {
	l.Send()
	for {
		known := false
		err := l.until(ctx, func() bool {
			known = !l.proven.Before(since)
			return known || len(l.queue) == 0
		})
		if known || err != nil {
			return err
		}
		err = l.request(ctx, "confirm "+l.session, func() error {
			return l.mem.Confirm(context.Background(), since.Add(-l.offset)) // by the clock of all logs in memory
		})
		l.mu.Lock()
		if errors.Is(err, schemas.ErrConflict) {
			l.fail(err)
		}
		idle := len(l.queue) == 0
		l.mu.Unlock()
		if idle || err != nil {
			return err
		}
	}
}

// Read yields the events that were stored when the log was opened.
func (l *farLog) Read(ctx context.Context, from uint64) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		events, err := ask(ctx, l.process, "read "+l.session, func() ([]schemas.Event, error) {
			return all(l.mem.Read(context.Background(), from))
		})
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(schemas.Event{}, err)
		}
	}
}

// all collects the events of a sequence.
func all(events iter.Seq2[schemas.Event, error]) (list []schemas.Event, err error) {
	for e, err := range events {
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	return list, nil
}

// Snapshot returns the newest state that was saved.
func (l *farLog) Snapshot(ctx context.Context, version int) (state []byte, seq uint64, err error) {
	type snapshot struct {
		state []byte
		seq   uint64
	}
	saved, err := ask(ctx, l.process, "snapshot "+l.session, func() (s snapshot, err error) {
		s.state, s.seq, err = l.mem.Snapshot(context.Background(), version)
		return s, err
	})
	return saved.state, saved.seq, err
}

// SaveSnapshot saves a state.
func (l *farLog) SaveSnapshot(ctx context.Context, version int, seq uint64, state []byte) error {
	return l.request(ctx, "save "+l.session, func() error {
		return l.mem.SaveSnapshot(context.Background(), version, seq,
			state)
	})
}

// Close fails the log with [eventstore.ErrClosed].
func (l *farLog) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail(eventstore.ErrClosed)
}
