package eventstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// What a log may have queued before Append waits.
const (
	maxQueued      = 256
	maxQueuedBytes = 4 << 20
)

// ErrClosed is returned by a log after [Log.Close].
var ErrClosed = errors.New("log closed")

// Log is the log of one session, opened for appending. All methods may be called concurrently.
//
// At most one append is under way. Whoever finds none publishes: Append itself, or the store's callback when it takes
// the answer to the one before. After an unknown outcome a goroutine takes over until it is known.
type Log struct {
	s       *Store
	session string
	subject string

	// order is held while an event is encoded, since it needs the hash of the one before. It comes before mu.
	order sync.Mutex
	hash  string // of the last event handed over; guarded by order

	mu      sync.Mutex
	next    uint64   // sequence the next event must have
	head    position // last event stored
	opened  position // head when the log was opened
	known   position // of the snapshot, if one was loaded: where reading may begin
	queue   []*entry // handed over and not stored; the first is under way
	bytes   int      // size of the queue
	token   uint64   // of the publish under way, 0 if none waits for its answer
	sent    time.Time
	proven  time.Time // when the newest event that was stored was sent: the session was ours then
	timer   *time.Timer
	stop    context.CancelFunc // ends the goroutine that finds out an outcome
	err     error              // final
	flushes []flush
	space   chan struct{} // closed when the queue gets shorter; nil if nobody waits
}

type flush struct {
	seq  uint64
	done chan error
}

func newLog(s *Store, session string) *Log {
	return &Log{s: s, session: session, subject: s.o.Subjects.Event(session), next: 1}
}

// start sets where a new log begins.
func (l *Log) start(head position, hash string) {
	l.head, l.opened, l.next, l.hash = head, head, head.seq+1, hash
}

// Append hands over the next event: e.Seq must be one more than that of the event handed over before, or of the head at
// which the log was opened. It sets PrevHash itself. It does not wait for storage, but it waits, until ctx ends, while
// 256 events or 4 MiB are queued. The log owns e from then on.
//
// An error about this event alone (wrong session or sequence, cannot be encoded, ctx ended) changes nothing. An error of
// storing is final; it is a [schemas.ConflictError] if another writer has extended the session.
func (l *Log) Append(ctx context.Context, e schemas.Event) error {
	if e.Session != l.session {
		return fmt.Errorf("eventstore: append to session %s: event is of session %q", l.session, e.Session)
	}
	if err := l.waitForSpace(ctx); err != nil {
		return err
	}
	l.order.Lock()
	defer l.order.Unlock()
	if err := l.admit(e.Seq); err != nil {
		return err
	}
	e.PrevHash = l.hash
	ent, err := l.s.encode(e, l.subject)
	if err != nil {
		return err
	}
	l.enqueue(ent)
	l.hash = ent.hash() // after publishing: the server works meanwhile
	return nil
}

func (l *Log) waitForSpace(ctx context.Context) error {
	for {
		l.mu.Lock()
		if l.err != nil || len(l.queue) < maxQueued && l.bytes < maxQueuedBytes {
			defer l.mu.Unlock()
			return l.err
		}
		if l.space == nil {
			l.space = make(chan struct{})
		}
		space := l.space
		l.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
			return fmt.Errorf("eventstore: append to session %s: %w", l.session, context.Cause(ctx))
		}
	}
}

func (l *Log) admit(seq uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if seq != l.next {
		return fmt.Errorf("eventstore: append to session %s: event has sequence %d, next is %d", l.session, seq, l.next)
	}
	return nil
}

func (l *Log) enqueue(ent *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return // the next call returns it
	}
	l.next++
	l.queue = append(l.queue, ent)
	l.bytes += ent.size
	if len(l.queue) == 1 {
		l.sendFirst()
	}
}

// Flush returns once everything handed over before is stored, or with the error because of which it will not be. If ctx
// ends first it returns ctx's error, which is not final.
func (l *Log) Flush(ctx context.Context) error {
	l.mu.Lock()
	if l.err != nil || len(l.queue) == 0 {
		defer l.mu.Unlock()
		return l.err
	}
	done := make(chan error, 1)
	l.flushes = append(l.flushes, flush{l.next - 1, done})
	l.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("eventstore: flush session %s: %w", l.session, context.Cause(ctx))
	}
}

// Close gives up the log at once. It does not wait for appends: what was not flushed may be stored or not. Every later
// call returns [ErrClosed], or the error that the log had before.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail(fmt.Errorf("eventstore: session %s: %w", l.session, ErrClosed))
}
