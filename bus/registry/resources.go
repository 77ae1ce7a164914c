package registry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// Resources knows what workspaces have for prompts, as their workers announce it in agent_resources. It follows the
// bucket, so asking costs no request. All methods may be called concurrently.
type Resources struct {
	log    *slog.Logger
	close  func()
	loaded chan struct{}

	mu      sync.Mutex
	entries map[string]schemas.Resources // by the bucket's key
}

// NewResources starts to follow the announcements until [Resources.Close]. c stays the caller's and has to outlive it;
// a nil logger discards.
func NewResources(c *bus.Conn, log *slog.Logger) *Resources {
	r := &Resources{log: cmp.Or(log, slog.New(slog.DiscardHandler)), loaded: make(chan struct{})}
	r.close = followBucket(c, schemas.BucketResources, r.log, r.load, func(e entry) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.record(r.entries, e)
	})
	return r
}

// Close stops following. What is known stays known.
func (r *Resources) Close() { r.close() }

// Resources returns what a workspace has, the zero value where no worker announces anything. Where workers announce
// different things, it is what changed last, and of the same second that of the worker whose name comes first. It waits
// for the first reading of the bucket. The parts are shared and must not be changed.
func (r *Resources) Resources(ctx context.Context, workspace string) (newest schemas.Resources, err error) {
	select {
	case <-r.loaded:
	case <-ctx.Done():
		return newest, fmt.Errorf("registry: resources of workspace %q: %w", workspace, context.Cause(ctx))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		newer := cmp.Or(cmp.Compare(e.Since, newest.Since), cmp.Compare(newest.Worker, e.Worker)) > 0
		if e.Workspace == workspace && (newest.Worker == "" || newer) {
			newest = e
		}
	}
	return newest, nil
}

func (r *Resources) load(all []entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = make(map[string]schemas.Resources, len(all))
	for _, e := range all {
		r.record(r.entries, e)
	}
	select {
	case <-r.loaded:
	default:
		close(r.loaded)
	}
}

func (r *Resources) record(entries map[string]schemas.Resources, e entry) {
	delete(entries, e.key)
	if e.deleted {
		return
	}
	found, err := schemas.ParseResources(e.value)
	if key := schemas.ResourcesKey(found.Workspace, found.Worker); err == nil && key != e.key {
		err = fmt.Errorf("it is of %q", key) // a worker may announce only what its permissions name
	}
	if err != nil {
		r.log.Warn("announcement ignored", "bucket", schemas.BucketResources, "key", e.key, "err", err)
		return
	}
	entries[e.key] = found
}
