package registry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// Resources holds the resources of workspaces, which prompts are built from, as workers announce them in the bucket
// agent_resources. It follows the bucket, so reading them sends no request. All methods may be called concurrently.
type Resources struct{ *followed[schemas.Resources] }

// maxResources is how many bytes an announcement of resources may have: their texts, and what is around them.
const maxResources = schemas.MaxResourceBytes + 128<<10

// NewResources follows the announcements until [Resources.Close]. The caller keeps ownership of c, which must outlive
// the Resources. A nil logger discards.
func NewResources(c *bus.Conn, log *slog.Logger) *Resources {
	return &Resources{follow(c, source[schemas.Resources]{bucket: schemas.BucketResources,
		log:    cmp.Or(log, slog.New(slog.DiscardHandler)),
		decode: decodeResources})}
}

// decodeResources decodes an entry of the bucket.
func decodeResources(e entry, _ schemas.Resources) (schemas.Resources, error) {
	if len(e.value) > maxResources {
		return schemas.Resources{}, fmt.Errorf("it has %d bytes, the limit is %d", len(e.value), maxResources)
	}
	found, err := schemas.ParseResources(e.value)
	if key := schemas.ResourcesKey(found.Workspace, found.Worker); err == nil && key != e.key {
		err = fmt.Errorf("its content belongs to key %q", key) // permissions allow a worker its own keys only
	}
	return found, err
}

// Resources returns the resources of a workspace, or the zero value if no worker announces any. If several workers
// announce them, it returns those that changed last, and among those of the same second the ones of the worker whose
// name sorts first. It waits until the bucket has been loaded. The caller must not modify the returned slices.
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
