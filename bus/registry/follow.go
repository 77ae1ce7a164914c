package registry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/natsio"
)

// answersEvery is how often answers of servers are logged at most: whoever has them sent chooses how many there are.
const answersEvery = 10 * time.Second

// followed is what the entries of a bucket say, by key. It follows the bucket, so asking costs no request. Answers of
// servers are no part of the bucket: what was there before them counts.
type followed[T any] struct {
	end  context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	loaded  bool
	entries map[string]T
	changed chan struct{} // closed at the next change
}

// reading is how the entries of a bucket are read.
type reading[T any] struct {
	bucket string
	log    *slog.Logger
	// read says what an entry means that was put; before is what it said until then. One that cannot be read is logged,
	// and is not there.
	read func(e entry, before T) (T, error)
	// keys, if set, takes in every entry.
	keys *keys
}

// follow watches a bucket, again whenever the watch breaks, until [followed.Close].
func follow[T any](c *bus.Conn, r reading[T]) *followed[T] {
	ctx, cancel := context.WithCancel(context.Background())
	f := &followed[T]{end: cancel, done: make(chan struct{}), changed: make(chan struct{})}
	passed := answers{log: r.log, bucket: r.bucket}
	load := func(all []entry) {
		known := make(map[string]T, len(all))
		said := make(map[string]bool, len(all)) // what somebody has put or deleted
		r.keys.reset()
		f.change(func() {
			for _, e := range all {
				r.keys.take(e)
				before, had := f.entries[e.key]
				switch {
				case !e.foreign:
					said[e.key] = true
					r.record(known, e, before)
				case had && !said[e.key]:
					known[e.key] = before
				}
				passed.count(e)
			}
			f.entries, f.loaded = known, true
		})
	}
	next := func(e entry) {
		r.keys.take(e)
		if passed.count(e) {
			return
		}
		f.change(func() { r.record(f.entries, e, f.entries[e.key]) })
	}
	go func() {
		defer close(f.done)
		ends := newExpiry()
		defer ends.stop()
		for ctx.Err() == nil {
			if err := watchBucket(ctx, c, r.bucket, ends, load, next); err != nil && ctx.Err() == nil {
				r.log.Warn("watching a bucket", "bucket", r.bucket, "err", err)
				natsio.Wait(ctx, rejoinWait)
			}
		}
	}()
	return f
}

// record has an entry that somebody has put or deleted among the entries, or not.
func (r reading[T]) record(entries map[string]T, e entry, before T) {
	delete(entries, e.key)
	if e.deleted {
		return
	}
	said, err := r.read(e, before)
	if err != nil {
		r.log.Warn("announcement ignored", "bucket", r.bucket, "key", e.key, "err", err)
		return
	}
	entries[e.key] = said
}

// answers logs the answers of servers that are passed over. It belongs to one goroutine.
type answers struct {
	log    *slog.Logger
	bucket string
	n      int // since the last line
	logged time.Time
}

// count reports whether an entry is an answer.
func (a *answers) count(e entry) bool {
	if !e.foreign {
		return false
	}
	if a.n++; time.Since(a.logged) >= answersEvery {
		a.log.Warn("answers of a NATS server, which somebody had sent to a bucket, are passed over", "bucket", a.bucket,
			"key", e.key, "revision", e.revision, "answers", a.n)
		a.n, a.logged = 0, time.Now()
	}
	return true
}

// Close stops following. What is known stays known.
func (f *followed[T]) Close() {
	f.end()
	<-f.done
}

func (f *followed[T]) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.changed)
	f.changed = make(chan struct{})
}

// wait calls ok, under the lock, once the bucket has been read and at every change until it is true.
func (f *followed[T]) wait(ctx context.Context, ok func() bool) error {
	for {
		f.mu.Lock()
		done, changed := f.loaded && ok(), f.changed
		f.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
