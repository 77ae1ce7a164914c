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
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// Logs are what the index is a fold of. Head returns the end of a session's log: the sequence of its last event and
// that of its last message in the stream, both 0 where there is none. Between yields the events behind the message
// after, whose last event has the sequence seq, up to the message upTo; an error is the last thing yielded.
type Logs interface {
	Head(ctx context.Context, session string) (seq, stream uint64, err error)
	Between(ctx context.Context, session string, seq, after, upTo uint64) iter.Seq2[schemas.Event, error]
}

// Options are what an [Index] works with. Logs and Setup are required.
type Options struct {
	Logs Logs
	// Setup makes the bucket where there is none.
	Setup func(ctx context.Context) error
	// Damaged is what errors of Logs about a log that is not what its writers wrote wrap.
	Damaged error
	// Interval is at most how often the entry of a session is written while it runs; 0: 1 s.
	Interval time.Duration
	// Check is how often what was stored is compared with the index; 0: 10 s.
	Check time.Duration
	// Grace is how long a writer gets for its entry before another runner writes it; 0: 3 s.
	Grace time.Duration
	// Audit is how often entries without a log are searched and deleted; 0: 10 min.
	Audit time.Duration
	// Logger records what is wrong; nil discards.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		to *time.Duration
		d  time.Duration
	}{
		{&o.Interval, time.Second}, {&o.Check, 10 * time.Second}, {&o.Grace, 3 * time.Second},
		{&o.Audit, 10 * time.Minute},
	} {
		if *d.to <= 0 {
			*d.to = d.d
		}
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Index is the list of all sessions. All methods may be called concurrently. [Open] makes one.
type Index struct {
	js       jetstream.JetStream
	subjects schemas.Subjects
	o        Options
	ready    chan struct{} // closed when the bucket has been read for the first time

	slots   chan struct{}   // of the goroutines that read logs or write entries
	writing context.Context // of writes; it outlives following
	end     context.CancelFunc
	stop    context.CancelFunc // of following
	work    sync.WaitGroup     // goroutines

	mu         sync.Mutex
	list       *list
	children   map[string]map[string]bool // of a session, by its id
	tracks     map[string]*Track
	revision   uint64            // of the bucket, as far as it has been followed
	gone       map[string]uint64 // revision of the marker of an entry that was deleted
	covered    map[string]uint64 // revision of what lies over an entry and is none
	fences     map[string]uint64 // revision of a key whose change the watch has not brought yet
	checkpoint uint64            // every message of the log up to here is in the index
	complete   bool
	moved      chan struct{} // closed when revision grows
	stopped    bool
}

// closeWait is how long [Index.Close] waits for the entries that are being written.
const closeWait = 5 * time.Second

// Open returns an index on a connection, which stays the caller's and has to outlive it. It follows the bucket, and
// compares it with the log, until [Index.Close].
func Open(c *bus.Conn, o Options) *Index {
	const slots = 8
	ix := &Index{
		js: c.JetStream(), subjects: c.Subjects(), o: o.withDefaults(), ready: make(chan struct{}),
		slots: make(chan struct{}, slots), list: newList(), children: make(map[string]map[string]bool),
		tracks: make(map[string]*Track), gone: make(map[string]uint64), covered: make(map[string]uint64),
		fences: make(map[string]uint64), moved: make(chan struct{}),
	}
	ix.writing, ix.end = context.WithCancel(context.Background())
	following, stop := context.WithCancel(context.Background())
	ix.stop = stop
	ix.work.Go(func() { ix.run(following) })
	return ix
}

// run follows the bucket and compares it with the log until ctx ends.
func (ix *Index) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := ix.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		ix.o.Logger.Warn("the index of sessions is read again", "err", err)
		natsio.Wait(ctx, rejoinWait)
	}
}

// Close ends the index. What tracks still have to write is written first, for five seconds at most.
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

// Get returns the entry of a session, nil if there is none. It may be behind the session's log by a moment: see
// [Index.Fresh].
func (ix *Index) Get(session string) *Entry {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.list.get(session)
}

// View is the index at a revision. Entries are in order, the latest activity first. Partial says that sessions may be
// missing, because the index is being read or built.
type View struct {
	Entries  []*Entry
	Revision uint64
	Partial  bool
}

// View returns the index as it is. The entries are shared and must not be changed.
func (ix *Index) View() View {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return View{Entries: ix.list.sorted(), Revision: ix.revision, Partial: !ix.complete}
}

// Children returns the sessions that were branched from a session, in no order.
func (ix *Index) Children(session string) []*Entry {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	var children []*Entry
	for id := range ix.children[session] {
		children = append(children, ix.list.get(id))
	}
	return children
}

// Wait returns once the index is at least at a revision of the bucket, which another runner may have seen before, or
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

// Ready is closed when the bucket has been read once.
func (ix *Index) Ready() <-chan struct{} { return ix.ready }

// slot waits for its turn to read a log or write an entry. release is nil where ctx ended first.
func (ix *Index) slot(ctx context.Context) (release func()) {
	select {
	case ix.slots <- struct{}{}:
		return func() { <-ix.slots }
	case <-ctx.Done():
		return nil
	}
}
