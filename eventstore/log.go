package eventstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Append waits while this much is queued.
const (
	maxQueued      = 256
	maxQueuedBytes = 4 << 20
)

// ErrClosed is returned by a log after [Log.Close].
var ErrClosed = errors.New("log closed")

// Log is the log of one session, opened for appending. All methods may be called concurrently.
//
// Events gather in a commit until it is sent. At most one commit is in flight. It is published by the caller that sends
// it, or by the callback that receives the acknowledgement of the commit before it. If the outcome of a commit is
// unknown, a goroutine takes over until it is known.
type Log struct {
	backend    backend
	s          *Store // the backend; nil in memory
	o          *Options
	session    string
	subject    string
	blobPrefix string // of the names of this log's payloads in the object store

	mu       sync.Mutex
	next     uint64    // sequence that the next event must have
	head     position  // last commit stored
	tail     uint64    // stream sequence of the newest message on the subject: the last commit or a foreign message
	hash     string    // of the last commit
	opened   position  // head when the log was opened
	loaded   position  // end of the commit before that of the loaded snapshot; zero without a snapshot
	queue    []*commit // appended and not stored
	sending  bool      // the first of the queue is being stored
	bytes    int       // size of the queue
	token    uint64    // of the publish in flight; 0 if none waits for its answer
	sent     time.Time // when that was published
	ownedAt  time.Time // when the newest stored commit was sent: this log owned the session then
	timer    *time.Timer
	stop     context.CancelFunc // ends the goroutine that stores the first commit, if there is one
	err      error              // final
	waiting  []waiter           // ordered by sequence
	hasSpace chan struct{}      // closed when the queue gets shorter; nil if no Append waits
}

// waiter is a caller that waits until an event is stored.
type waiter struct {
	seq  uint64
	done chan error
}

// openLog opens the log of a session at its head.
func openLog(ctx context.Context, b backend, s *Store, o *Options, session string) (*Log, error) {
	if err := schemas.CheckSession(session); err != nil {
		return nil, fmt.Errorf("eventstore: open: %w", err)
	}
	l := &Log{backend: b, s: s, o: o, session: session, subject: o.Subjects.Event(session),
		blobPrefix: session + "/" + rand.Text() + "/"}
	end, err := endOf(ctx, b, session, acknowledged)
	l.tail = end.newest.stream
	if err == nil {
		err = l.checkFences(ctx, end.fences)
	}
	if err == nil {
		err = l.checkRestored(ctx, end)
	}
	if err == nil && end.found {
		l.head, err = end.last.end(session)
		l.hash = end.last.hash()
	}
	if err != nil {
		return nil, fmt.Errorf("eventstore: open session %s: %w", session, err)
	}
	l.opened, l.next = l.head, l.head.seq+1
	return l, nil
}

// Append queues the next event: e.Seq must be one more than that of the event appended before, or of the head at which
// the log was opened. Append sets PrevHash. The event is stored in a commit with its neighbours, in order. The commit
// is sent by [Log.Send] or [Log.Flush] at the latest. Append does not wait for storage, but while 256 events or 4 MiB
// are queued it waits for space, until ctx ends. The log owns e from then on.
//
// An error about this event alone (wrong session or sequence, cannot be encoded, ctx ended) changes nothing. An error
// of storing is final; it is a [schemas.ConflictError] if another writer has extended the session.
func (l *Log) Append(ctx context.Context, e schemas.Event) error {
	if e.Session != l.session {
		return fmt.Errorf("eventstore: append to session %s: event is of session %q", l.session, e.Session)
	}
	return withData(&e, func(data []byte) error {
		for {
			space, err := l.enqueue(&e, data)
			if space == nil {
				return err
			}
			select {
			case <-space:
			case <-ctx.Done():
				return fmt.Errorf("eventstore: append to session %s: %w", l.session, context.Cause(ctx))
			}
		}
	})
}

// enqueue adds an event to the last commit that is not in flight. If the queue is full it returns a channel that is
// closed when there may be space.
func (l *Log) enqueue(e *schemas.Event, data []byte) (space <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return nil, l.err
	case e.Seq != l.next:
		return nil, fmt.Errorf("eventstore: append to session %s: event has sequence %d, not %d", l.session, e.Seq, l.next)
	}
	if l.full() {
		l.send()
	}
	if l.full() {
		if l.hasSpace == nil {
			l.hasSpace = make(chan struct{})
		}
		return l.hasSpace, nil
	}
	last := len(l.queue) - 1
	if last < 0 || last == 0 && l.sending || l.queue[last].full(len(data)) {
		l.queue = append(l.queue, commits.Get().(*commit))
		last++
	}
	if err := l.queue[last].add(e, data, l.o.BlobThreshold, l.blobPrefix); err != nil {
		if l.queue[last].Len() == 0 {
			l.queue = l.queue[:last]
		}
		return nil, fmt.Errorf("eventstore: append session %s seq %d: %w", l.session, e.Seq, err)
	}
	l.next++
	l.bytes += len(data)
	if last > 0 {
		l.send() // the commit before is complete
	}
	return nil, nil
}

// full reports whether no more may be queued. mu is held.
func (l *Log) full() bool { return l.next-l.head.seq > maxQueued || l.bytes >= maxQueuedBytes }

// Send stores everything appended so far as soon as possible: now, or when the commit in flight is acknowledged.
// It does not wait. A caller that is about to wait for something else calls Send first, so that no event stays queued
// in the meantime.
func (l *Log) Send() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.send()
}

// Flush sends everything appended before and returns once it is stored, or with the error because of which it will
// not be. If ctx ends first, Flush returns ctx's error, which is not final.
func (l *Log) Flush(ctx context.Context) error {
	l.mu.Lock()
	l.send()
	if l.err != nil || len(l.queue) == 0 {
		defer l.mu.Unlock()
		return l.err
	}
	done := make(chan error, 1)
	l.waiting = append(l.waiting, waiter{l.next - 1, done})
	l.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("eventstore: flush session %s: %w", l.session, context.Cause(ctx))
	}
}

// Close gives up the log at once. It does not wait for appends: an event that was not flushed may be stored or not.
// Every later call returns [ErrClosed], or the error that the log had before.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail(fmt.Errorf("eventstore: session %s: %w", l.session, ErrClosed))
}

// Stored returns the sequence of the last event that is known to be stored, and the sequence in the stream of the
// message that has it. Both are 0 for a log without events.
func (l *Log) Stored() (seq, stream uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head.seq, l.head.stream
}

// tailNow returns the stream sequence of the newest message on the subject.
func (l *Log) tailNow() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tail
}
