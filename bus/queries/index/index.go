package index

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/turns"
)

// Logs reads the logs that the index is folded from. Head returns the end of a session's log: the sequences of its
// last event and of its last message in the stream, both 0 if there is no log. Between yields the events after the
// message after, whose last event has the sequence seq, up to the message upTo; an error is yielded last.
type Logs interface {
	Head(ctx context.Context, session string) (seq, stream uint64, err error)
	Between(ctx context.Context, session string, seq, after, upTo uint64) iter.Seq2[schemas.Event, error]
}

// Options configures an [Index]. Logs and Setup are required.
type Options struct {
	Logs Logs
	// Setup creates the bucket if it does not exist.
	Setup func(ctx context.Context) error
	// Damaged is wrapped by errors of Logs about logs that are not what their writers wrote.
	Damaged error
	// Interval is the minimum time between two writes of a running session's entry; 0 means 1 s.
	Interval time.Duration
	// Check is how often the index is compared with the stored logs; 0 means 10 s.
	Check time.Duration
	// Grace is how long a runner has to write its entry before another runner does; 0 means 3 s.
	Grace time.Duration
	// Audit is how often entries without a log, and foreign messages on subjects of logs, are deleted; 0 means 10
	// min.
	Audit time.Duration
	// Stray is the minimum age of a foreign message on the subject of a log before it is deleted; 0 means 1 min.
	Stray time.Duration
	// Loads bounds the large logs that are read at once; nil lets all be read.
	Loads *turns.Loads
	// Logger records problems; nil discards.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		to *time.Duration
		d  time.Duration
	}{
		{&o.Interval, time.Second}, {&o.Check, 10 * time.Second}, {&o.Grace, 3 * time.Second},
		{&o.Audit, 10 * time.Minute}, {&o.Stray, time.Minute},
	} {
		if *d.to <= 0 {
			*d.to = d.d
		}
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Index is the list of all sessions. Its methods are safe for concurrent use. [Open] creates one.
type Index struct {
	js       jetstream.JetStream
	subjects schemas.Subjects
	o        Options
	ready    chan struct{} // closed when the bucket has been read once
	readers  *readers

	slots   chan struct{}   // limit goroutines that read logs or write entries
	writing context.Context // context of writes; it outlives following
	end     context.CancelFunc
	stop    context.CancelFunc // ends following
	work    sync.WaitGroup     // goroutines

	audited time.Time // only the comparison uses it

	mu sync.Mutex
	*contents
	tracks     map[string]*Track
	complete   bool          // what is followed was compared with the logs
	reconnects uint64        // of the connection, when the bucket was read
	moved      chan struct{} // closed when revision changes
	stopped    bool
}

// closeWait limits how long [Index.Close] waits for entries that are being written.
const closeWait = 5 * time.Second

// Open returns an index that follows the bucket and compares it with the logs until [Index.Close]. The caller keeps
// ownership of the connection, which must outlive the index.
func Open(c *bus.Conn, o Options) *Index {
	const slots = 8
	ix := &Index{
		js: c.JetStream(), subjects: c.Subjects(), o: o.withDefaults(), ready: make(chan struct{}),
		slots: make(chan struct{}, slots), readers: newReaders(), contents: newContents(nil),
		tracks: make(map[string]*Track), moved: make(chan struct{}),
	}
	ix.writing, ix.end = context.WithCancel(context.Background())
	following, stop := context.WithCancel(context.Background())
	ix.stop = stop
	ix.work.Go(func() { ix.run(following) })
	return ix
}

// Close stops the index. It first writes what tracks have not written yet, for five seconds at most.
func (ix *Index) Close() {
	ix.stop()
	for _, t := range ix.stopTracks() {
		t.Close()
	}
	defer time.AfterFunc(closeWait, ix.end).Stop()
	ix.work.Wait()
	ix.end()
}

func (ix *Index) stopTracks() []*Track {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.stopped = true
	return slices.Collect(maps.Values(ix.tracks))
}

// Get returns the entry of a session, nil if there is none. It may lag behind the session's log by a moment; see
// [Index.Fresh].
func (ix *Index) Get(session string) *Entry {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.list.get(session)
}

// View is the index at one revision. Entries are ordered by latest activity, newest first. Partial reports that
// sessions may be missing because the index is still being read or built, or the connection is or was lost.
type View struct {
	Entries  []*Entry
	Revision uint64
	Partial  bool
}

// View returns the current view. The entries are shared and must not be modified.
func (ix *Index) View() View {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return View{Entries: ix.list.sorted(), Revision: ix.revision, Partial: !ix.current()}
}

// Children returns the sessions that were branched from a session, in no particular order.
func (ix *Index) Children(session string) []*Entry {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	var children []*Entry
	for id := range ix.children[session] {
		children = append(children, ix.list.get(id))
	}
	return children
}

// Wait returns when the index has reached a revision of the bucket, which another runner may have reached earlier, or
// with the error of ctx.
func (ix *Index) Wait(ctx context.Context, revision uint64) error {
	for {
		ix.mu.Lock()
		now, moved := ix.revision, ix.moved
		ix.mu.Unlock()
		if now >= revision {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("index: at revision %d, not %d: %w", now, revision, context.Cause(ctx))
		}
	}
}

// Ready returns a channel that is closed when the bucket has been read once.
func (ix *Index) Ready() <-chan struct{} { return ix.ready }

// slot reserves a slot for reading a log or writing an entry. release is nil if ctx ended first.
func (ix *Index) slot(ctx context.Context) (release func()) {
	select {
	case ix.slots <- struct{}{}:
		return func() { <-ix.slots }
	case <-ctx.Done():
		return nil
	}
}
