package eventstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

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
// storing is final; it wraps [schemas.ErrConflict] if another writer has extended the session.
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

// sendFirst begins to store the first entry of the queue. mu is held.
func (l *Log) sendFirst() {
	ent := l.queue[0]
	if ent.blob != nil {
		l.work(func(ctx context.Context) { l.storeBlob(ctx, ent) })
		return
	}
	l.publish(ent)
}

// publish sends an entry; the answer comes to answered, or lost is called. mu is held.
func (l *Log) publish(ent *entry) {
	ent.expect(l.head.stream)
	token, reply := l.s.acks.expect(l)
	ent.msg.Reply = reply
	l.token, l.sent = token, time.Now()
	if err := l.s.nc.PublishMsg(&ent.msg); err != nil {
		l.s.acks.forget(token)
		l.unknown(ent, err)
		return
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(l.s.o.AppendTimeout, l.timedOut)
	} else {
		l.timer.Reset(l.s.o.AppendTimeout)
	}
}

// answered takes the answer to the publish with this token.
func (l *Log) answered(token uint64, m *nats.Msg) {
	stream, err := parseAck(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token != token {
		return
	}
	l.token = 0
	ent := l.queue[0]
	switch {
	case err == nil:
		l.stored(ent, stream)
	case refused(err):
		// Published once and refused: it is not in the log, whatever is.
		l.fail(l.conflict(ent, err))
	case unavailable(err) || errors.Is(err, errAnswer):
		l.unknown(ent, err)
	default:
		l.fail(fmt.Errorf("eventstore: append session %s seq %d: %w", l.session, ent.seq, err))
	}
}

// lost is called when no answer will come for the publish with this token.
func (l *Log) lost(token uint64, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token == token {
		l.unknown(l.queue[0], cause)
	}
}

func (l *Log) timedOut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The timer may have fired for the publish before.
	if l.token != 0 && time.Since(l.sent) >= l.s.o.AppendTimeout {
		l.s.acks.forget(l.token)
		l.unknown(l.queue[0], nats.ErrTimeout)
	}
}

// stored takes an entry off the queue and begins with the next. mu is held.
func (l *Log) stored(ent *entry, stream uint64) {
	l.head = position{ent.seq, stream}
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.bytes -= ent.size
	if l.space != nil {
		close(l.space)
		l.space = nil
	}
	for len(l.flushes) > 0 && l.flushes[0].seq <= ent.seq {
		l.flushes[0].done <- nil
		l.flushes = l.flushes[1:]
	}
	if len(l.queue) > 0 {
		l.sendFirst()
		return
	}
	l.queue, l.flushes = nil, nil
	if l.timer != nil {
		l.timer.Stop()
	}
}

// fail makes err final and wakes everybody. mu is held.
func (l *Log) fail(err error) {
	if l.err != nil {
		return
	}
	l.err = err
	if l.token != 0 {
		l.s.acks.forget(l.token)
		l.token = 0
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.stop != nil {
		l.stop()
	}
	for _, f := range l.flushes {
		f.done <- err
	}
	if l.space != nil {
		close(l.space)
	}
	l.queue, l.bytes, l.flushes, l.space = nil, 0, nil, nil
}

func (l *Log) conflict(ent *entry, cause error) error {
	return &schemas.ConflictError{Session: l.session, Seq: ent.seq, Cause: cause}
}
