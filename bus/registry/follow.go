package registry

import (
	"context"
	"log/slog"
	"sync"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/natsio"
)

// followed is what the entries of a bucket say, by key. It follows the bucket, so asking costs no request.
type followed[T any] struct {
	end  context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	loaded  bool
	entries map[string]T
	changed chan struct{} // closed at the next change
}

// follow watches a bucket, again whenever the watch breaks, until [followed.Close]. read says what an entry means that
// was put, before is what it said until then. One that cannot be read is logged, and is not there.
func follow[T any](c *bus.Conn, bucket string, log *slog.Logger, read func(e entry, before T) (T, error)) *followed[T] {
	ctx, cancel := context.WithCancel(context.Background())
	f := &followed[T]{end: cancel, done: make(chan struct{}), changed: make(chan struct{})}
	record := func(entries map[string]T, e entry, before T) {
		var said T
		err := error(nil)
		if !e.deleted {
			said, err = read(e, before)
		}
		if e.deleted || err != nil {
			delete(entries, e.key)
		} else {
			entries[e.key] = said
		}
		if err != nil {
			log.Warn("announcement ignored", "bucket", bucket, "key", e.key, "err", err)
		}
	}
	load := func(all []entry) {
		known := make(map[string]T, len(all))
		f.change(func() {
			for _, e := range all {
				record(known, e, f.entries[e.key])
			}
			f.entries, f.loaded = known, true
		})
	}
	next := func(e entry) {
		f.change(func() {
			before, known := f.entries[e.key]
			if e.foreign && known {
				log.Warn("entry kept as it was", "bucket", bucket, "key", e.key, "revision", e.revision, "err", errForeign)
				return
			}
			record(f.entries, e, before)
		})
	}
	go func() {
		defer close(f.done)
		for ctx.Err() == nil {
			if err := watchBucket(ctx, c, bucket, load, next); err != nil && ctx.Err() == nil {
				log.Warn("watching a bucket", "bucket", bucket, "err", err)
				natsio.Wait(ctx, rejoinWait)
			}
		}
	}()
	return f
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
