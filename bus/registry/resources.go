package registry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// Resources knows what workspaces have for prompts, as their workers announce it in agent_resources. It follows the
// bucket, so asking costs no request. All methods may be called concurrently.
type Resources struct{ *followed[schemas.Resources] }

// NewResources starts to follow the announcements until [Resources.Close]. c stays the caller's and has to outlive it;
// a nil logger discards.
func NewResources(c *bus.Conn, log *slog.Logger) *Resources {
	return &Resources{follow(c, reading[schemas.Resources]{bucket: schemas.BucketResources,
		log: cmp.Or(log, slog.New(slog.DiscardHandler)),
		read: func(e entry, _ schemas.Resources) (schemas.Resources, error) {
			found, err := schemas.ParseResources(e.value)
			if key := schemas.ResourcesKey(found.Workspace, found.Worker); err == nil && key != e.key {
				err = fmt.Errorf("it is of %q", key) // a worker may announce only what its permissions name
			}
			return found, err
		}})}
}

// Resources returns what a workspace has, the zero value where no worker announces anything. Where workers announce
// different things, it is what changed last, and of the same second that of the worker whose name comes first. It waits
// for the first reading of the bucket. The parts are shared and must not be changed.
func (r *Resources) Resources(ctx context.Context, workspace string) (newest schemas.Resources, err error) {
	err = r.wait(ctx, func() bool {
		for _, e := range r.entries {
			newer := cmp.Or(cmp.Compare(e.Since, newest.Since), cmp.Compare(newest.Worker, e.Worker)) > 0
			if e.Workspace == workspace && (newest.Worker == "" || newer) {
				newest = e
			}
		}
		return true
	})
	if err != nil {
		err = fmt.Errorf("registry: resources of workspace %q: %w", workspace, err)
	}
	return newest, err
}
