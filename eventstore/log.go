package eventstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
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
// Events gather in a commit until it is sent. At most one commit is in flight. Whoever has one sent while none is
// publishes it himself; what has gathered behind one in flight is published by the store's callback when it takes the
// answer. After an unknown outcome a goroutine takes over until it is known.
type Log struct {
	keep    keeper
	s       *Store // that it is kept in; nil in memory
	o       *Options
	session string
	subject string
	writer  string // how the names of this log's objects begin

	mu      sync.Mutex
	next    uint64    // sequence the next event must have
	head    position  // last commit stored
	tail    uint64    // place of the newest message on the subject, the last commit or a foreign one behind it
	hash    string    // of that commit
	opened  position  // head when the log was opened
	known   position  // before the snapshot, if one was loaded: where reading may begin
	queue   []*commit // appended and not stored
	sending bool      // the first of the queue is under way
	bytes   int       // size of the queue
	token   uint64    // of the publish in flight, 0 if none waits for its answer
	sent    time.Time
	proven  time.Time // when the newest commit that was stored was sent: this log owned the session then
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

// keeper is where logs are kept, a [Store] or a [Memory]: what reading, verifying and snapshots need of it.
type keeper interface {
	// end returns the last message on the subject of a session.
	end(ctx context.Context, session string, as freshness) (rec record, found bool, err error)
	// at returns a session's message with a stream sequence.
	at(ctx context.Context, session string, stream uint64) (rec record, found bool, err error)
	// between yields the messages of a session after one place in the stream, up to another.
	between(ctx context.Context, session string, after, upTo uint64) iter.Seq2[record, error]
	// publish begins to store a sealed commit; mu of the log is held.
	publish(l *Log, c *commit)

	fetchBlob(ctx context.Context, ref string) ([]byte, error)
	snapshotValue(ctx context.Context, key string) ([]byte, error) // nil if there is none
	snapshotObject(ctx context.Context, name string) ([]byte, error)
	putSnapshot(ctx context.Context, key string, value, object []byte) error
}

// freshness is how the end of a log is looked for.
type freshness int

const (
	asSeen   freshness = iota // as whichever replica has it that answers, which is what readers may ask
	asStored                  // not behind what was acknowledged
	asLed                     // as the leader of the stream has it, whatever that takes
)

// openLog opens the log of a session at its head.
func openLog(ctx context.Context, k keeper, s *Store, o *Options, session string) (*Log, error) {
	if err := schemas.CheckSession(session); err != nil {
		return nil, fmt.Errorf("eventstore: open: %w", err)
	}
	l := &Log{keep: k, s: s, o: o, session: session, subject: o.Subjects.Event(session),
		writer: session + "/" + rand.Text() + "/"}
	rec, newest, found, err := endOf(ctx, k, session)
	l.tail = newest.stream
	if err == nil {
		err = l.fenced(ctx, newest)
	}
	if err == nil && found {
		l.head, err = rec.end(session)
		l.hash = rec.hash()
	}
	if err != nil {
		return nil, fmt.Errorf("eventstore: open session %s: %w", session, err)
	}
	l.opened, l.next = l.head, l.head.seq+1
	return l, nil
}

// Append takes the next event: e.Seq must be one more than that of the event appended before, or of the head
// at which the log was opened. It sets PrevHash itself. The event is stored with others in one commit, in order, which
// is sent at the latest by [Log.Send] or [Log.Flush]. Append does not wait for storage, but it waits, until ctx ends,
// while 256 events or 4 MiB are queued. The log owns e from then on.
//
// An error about this event alone (wrong session or sequence, cannot be encoded, ctx ended) changes nothing. An error
// of storing is final; it is a [schemas.ConflictError] if another writer has extended the session.
func (l *Log) Append(ctx context.Context, e schemas.Event) error {
	if e.Session != l.session {
		return fmt.Errorf("eventstore: append to session %s: event is of session %q", l.session, e.Session)
	}
	return withData(&e, func(data []byte) error {
		for {
			space, err := l.gather(&e, data)
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

// gather puts an event into the last commit that is not in flight. Where the queue is full it returns a channel that is
// closed when there may be space.
func (l *Log) gather(e *schemas.Event, data []byte) (space <-chan struct{}, err error) {
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
		if l.space == nil {
			l.space = make(chan struct{})
		}
		return l.space, nil
	}
	last := len(l.queue) - 1
	if last < 0 || last == 0 && l.sending || l.queue[last].full(len(data)) {
		l.queue = append(l.queue, commits.Get().(*commit))
		last++
	}
	if err := l.queue[last].take(e, data, l.o.BlobThreshold, l.writer); err != nil {
		if l.queue[last].Len() == 0 {
			l.queue = l.queue[:last]
		}
		return nil, fmt.Errorf("eventstore: append session %s seq %d: %w", l.session, e.Seq, err)
	}
	l.next++
	l.bytes += len(data)
	if last > 0 {
		l.send() // the one before is complete
	}
	return nil, nil
}

// full reports whether no more may be queued. mu is held.
func (l *Log) full() bool { return l.next-l.head.seq > maxQueued || l.bytes >= maxQueuedBytes }

// Send has everything appended so far stored as soon as may be: at once, or when the commit in flight is answered.
// It does not wait. A caller who is about to wait for something else calls it, so that nothing is buffered meanwhile.
func (l *Log) Send() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.send()
}

// Flush sends everything appended before and returns once it is stored, or with the error because of which it will
// not be. If ctx ends first it returns ctx's error, which is not final.
func (l *Log) Flush(ctx context.Context) error {
	l.mu.Lock()
	l.send()
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
