package registry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/natsio"
)

// foreignLogEvery is the minimum time between two log lines about foreign entries, because the client that directs them
// here decides how many there are, and between two about a watch that fails.
const foreignLogEvery = 10 * time.Second

// followed holds the decoded entries of a bucket, by key. It follows the bucket, so reading them sends no request.
// Foreign entries are ignored: the entry before them stays valid. All methods may be called concurrently.
type followed[T any] struct {
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	loaded  bool
	entries map[string]T
	seen    uint64        // revision of the newest entry that was processed, foreign ones included
	awaited uint64        // revision that a caller of catchUp waits for; 0 if there is none
	changed chan struct{} // closed at the next change
}

// source describes a bucket and how its entries are decoded.
type source[T any] struct {
	bucket string
	log    *slog.Logger
	// decode returns the meaning of an entry that was put. before is the meaning of the key's previous entry. An entry
	// that decode refuses is logged, and treated as if the key did not exist.
	decode func(e entry, before T) (T, error)
	// keys, if not nil, records every entry.
	keys *keys
}

// follow watches a bucket until [followed.Close]. It restarts a broken watch.
func follow[T any](c *bus.Conn, src source[T]) *followed[T] {
	ctx, cancel := context.WithCancel(context.Background())
	f := &followed[T]{stop: cancel, done: make(chan struct{}), changed: make(chan struct{})}
	foreign := foreignLog{log: src.log, bucket: src.bucket}
	load := func(all []entry) { f.load(src, all, &foreign) }
	next := func(e entry) { f.next(src, e, &foreign) }
	go func() {
		defer close(f.done)
		expiring := newExpiry()
		defer expiring.stop()
		var warned time.Time
		for ctx.Err() == nil {
			err := watchBucket(ctx, c, src.bucket, expiring, load, next)
			if err == nil || ctx.Err() != nil {
				continue
			}
			if time.Since(warned) >= foreignLogEvery {
				src.log.Warn("watching a bucket failed, trying again", "bucket", src.bucket, "err", err)
				warned = time.Now()
			}
			natsio.Wait(ctx, rewatchWait)
		}
	}()
	return f
}

// load replaces all entries. Only one goroutine calls load and next: so they decode without the lock, which may take a
// while.
func (f *followed[T]) load(src source[T], all []entry, foreign *foreignLog) {
	known := make(map[string]T, len(all))
	written := make(map[string]bool, len(all)) // keys that a client has put or deleted
	src.keys.reset()
	seen := uint64(0)
	for _, e := range all {
		src.keys.record(e)
		seen = max(seen, e.revision)
		before, had := f.entries[e.key]
		switch {
		case !e.foreign:
			written[e.key] = true
			if decoded, ok := src.decoded(e, before); ok {
				known[e.key] = decoded
			} else {
				delete(known, e.key)
			}
		case had && !written[e.key]:
			known[e.key] = before
		}
		foreign.check(e)
	}
	f.change(func() {
		f.seen = max(f.seen, seen)
		f.entries, f.loaded = known, true
	})
}

// next applies an entry.
func (f *followed[T]) next(src source[T], e entry, foreign *foreignLog) {
	src.keys.record(e)
	if foreign.check(e) && !f.skip(e.revision) {
		return
	}
	var decoded T
	ok := false
	if !e.foreign {
		decoded, ok = src.decoded(e, f.entries[e.key])
	}
	f.change(func() {
		switch f.seen = max(f.seen, e.revision); {
		case e.foreign:
		case ok:
			f.entries[e.key] = decoded
		default:
			delete(f.entries, e.key)
		}
	})
}

// decoded returns the meaning of an entry that a client has put. ok is false for one that was deleted or refused.
func (src source[T]) decoded(e entry, before T) (decoded T, ok bool) {
	if e.deleted {
		return decoded, false
	}
	decoded, err := src.decode(e, before)
	if err != nil {
		src.log.Warn("announcement ignored", "bucket", src.bucket, "key", e.key, "err", err)
	}
	return decoded, err == nil
}

// foreignLog logs the foreign entries of a bucket, at a limited rate. Only one goroutine may use it.
type foreignLog struct {
	log    *slog.Logger
	bucket string
	n      int       // entries since the last line
	last   time.Time // time of the last line
}

// check reports whether an entry is foreign, and logs it if so.
func (l *foreignLog) check(e entry) bool {
	if !e.foreign {
		return false
	}
	if l.n++; time.Since(l.last) >= foreignLogEvery {
		l.log.Warn("ignored answers of a NATS server that were directed to a bucket", "bucket", l.bucket, "key", e.key,
			"revision", e.revision, "answers", l.n)
		l.n, l.last = 0, time.Now()
	}
	return true
}

// Close stops following the bucket. The entries known so far can still be read.
func (f *followed[T]) Close() {
	f.stop()
	<-f.done
}

// change calls do under the lock, and then wakes all waiting callers.
func (f *followed[T]) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.changed)
	f.changed = make(chan struct{})
}

// skip records a foreign entry as processed. It reports whether a caller of catchUp waited for it or an earlier entry.
func (f *followed[T]) skip(revision uint64) (awaited bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = max(f.seen, revision)
	awaited = f.awaited > 0 && f.seen >= f.awaited
	if awaited {
		f.awaited = 0
	}
	return awaited
}

// catchUp returns once all entries up to a revision have been processed.
func (f *followed[T]) catchUp(ctx context.Context, revision uint64) error {
	return f.wait(ctx, func() bool {
		f.awaited = max(f.awaited, revision)
		return f.seen >= revision
	})
}

// wait returns nil once ok returns true. It calls ok under the lock, when the bucket has been loaded and at every
// change. If ctx ends before, it returns the cause.
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
