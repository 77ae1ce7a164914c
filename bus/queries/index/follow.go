package index

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/loopbus/loopbus/schemas"
)

// Keys of the bucket: v1 is the checkpoint, v1.<session> an entry.
var (
	keyCheckpoint = fmt.Sprintf("v%d", Version)
	keyPrefix     = keyCheckpoint + "."
)

const subjectPrefix = "$KV." + schemas.BucketSessions + "."

// follow reads the bucket and follows its changes until ctx ends, or the bucket turns out to be a different one.
func (ix *Index) follow(ctx context.Context) error {
	kv, err := ix.js.KeyValue(ctx, schemas.BucketSessions)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		if err = ix.o.Setup(ctx); err == nil {
			kv, err = ix.js.KeyValue(ctx, schemas.BucketSessions)
		}
	}
	if err != nil {
		return fmt.Errorf("index: open the bucket %s: %w", schemas.BucketSessions, err)
	}
	watcher, err := kv.WatchFiltered(ctx, []string{keyCheckpoint, keyPrefix + "*"})
	if err != nil {
		return fmt.Errorf("index: watch the bucket %s: %w", schemas.BucketSessions, err)
	}
	defer func() { _ = watcher.Stop() }()
	status, err := kv.Status(ctx)
	if err != nil {
		return fmt.Errorf("index: bucket %s: %w", schemas.BucketSessions, err)
	}
	info := status.(*jetstream.KeyValueBucketStatus).StreamInfo()
	g, ctx := errgroup.WithContext(ctx)
	loaded := make(chan struct{})
	g.Go(func() error { return ix.watch(ctx, watcher, func() { close(loaded) }) })
	g.Go(func() error {
		select {
		case <-loaded:
			return ix.compareLoop(ctx, info.Created)
		case <-ctx.Done():
			return nil
		}
	})
	return g.Wait()
}

// watch processes the contents of the bucket, calls loaded, and processes changes until ctx ends.
func (ix *Index) watch(ctx context.Context, watcher jetstream.KeyWatcher, loaded func()) error {
	var all []jetstream.KeyValueEntry
	for first := true; ; {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-watcher.Updates():
			switch {
			case !ok:
				return errors.New("index: the watch of the bucket ended")
			case e == nil:
				ix.load(all)
				all, first = nil, false
				loaded()
			case first:
				all = append(all, e)
			default:
				ix.mu.Lock()
				ix.take(e)
				ix.mu.Unlock()
			}
		}
	}
}

// load replaces what is known by the contents of the bucket.
func (ix *Index) load(all []jetstream.KeyValueEntry) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.list = newList()
	clear(ix.children)
	clear(ix.gone)
	clear(ix.covered)
	clear(ix.fences)
	ix.revision, ix.checkpoint, ix.complete = 0, 0, false
	for _, e := range all {
		ix.take(e)
	}
	select {
	case <-ix.ready:
	default:
		close(ix.ready)
	}
}

// take processes a change of the bucket. mu is held.
func (ix *Index) take(e jetstream.KeyValueEntry) {
	defer ix.move(e.Revision())
	session, ok := strings.CutPrefix(e.Key(), keyPrefix)
	if !ok {
		at, err := strconv.ParseUint(string(e.Value()), 10, 64)
		if err == nil || e.Operation() != jetstream.KeyValuePut { // anything else is a server's answer to a forged request
			ix.checkpoint = at
		}
		return
	}
	if fence, ok := ix.fences[session]; ok && fence <= e.Revision() {
		delete(ix.fences, session)
	}
	if e.Operation() != jetstream.KeyValuePut {
		delete(ix.covered, session)
		ix.remove(session, e.Revision())
		return
	}
	entry, err := decodeEntry(session, e.Value())
	if err != nil {
		ix.cover(session, e.Revision())
		return
	}
	delete(ix.covered, session)
	entry.revision = e.Revision()
	ix.put(entry)
}

// put replaces an entry. mu is held.
func (ix *Index) put(e *Entry) {
	session := e.Summary.Session
	delete(ix.gone, session)
	ix.unlink(ix.list.get(session))
	ix.list.put(e)
	if p := e.Summary.Parent; p != nil {
		if ix.children[p.Session] == nil {
			ix.children[p.Session] = make(map[string]bool)
		}
		ix.children[p.Session][session] = true
	}
}

// remove removes an entry because of a revision of the bucket. mu is held.
func (ix *Index) remove(session string, revision uint64) {
	ix.gone[session] = revision
	if old := ix.list.get(session); old != nil {
		ix.unlink(old)
		ix.list.remove(session)
	}
}

func (ix *Index) unlink(old *Entry) {
	if old == nil || old.Summary.Parent == nil {
		return
	}
	siblings := ix.children[old.Summary.Parent.Session]
	if delete(siblings, old.Summary.Session); len(siblings) == 0 {
		delete(ix.children, old.Summary.Parent.Session)
	}
}

// move records that the bucket has been followed up to a revision. mu is held.
func (ix *Index) move(revision uint64) {
	if revision <= ix.revision {
		return
	}
	ix.revision = revision
	close(ix.moved)
	ix.moved = make(chan struct{})
}
