package reader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/bus/inbox/membership"
)

// deleteOrphans deletes consumers that nobody reads from: they would keep their partitions from every runner. These are
// the consumers of runners that are not live, and those that this runner has requested and that were created although
// no answer came. refused are partitions that no live runner reports to read, and for which the servers have
// nevertheless refused a consumer for a while, because another one has some of them: it was created late, when the
// runner that had requested it read other partitions already. Such a consumer is deleted even though its runner is
// live. That runner creates a new one if it does use it.
func (r *Reader) deleteOrphans(ctx context.Context, view membership.View, refused []int) error {
	names, err := r.o.Queue.Names(ctx)
	for _, name := range names {
		id := name[:max(strings.LastIndexByte(name, '_'), 0)]
		if id != r.o.ID && slices.Contains(view.IDs, id) && !r.hasAny(ctx, name, refused) {
			continue
		}
		r.o.Logger.Info("deleting a consumer that no runner reads from", "consumer", name)
		if _, err := r.o.Queue.Delete(ctx, name); err != nil {
			return fmt.Errorf("inbox: delete consumer %s: %w", name, err)
		}
	}
	return err
}

// hasAny reports whether a consumer has one of the partitions, or the servers do not say: then they deliver nothing
// from it either.
func (r *Reader) hasAny(ctx context.Context, name string, partitions []int) bool {
	if len(partitions) == 0 {
		return false
	}
	reads, err := r.o.Queue.Reads(ctx, name)
	if errors.Is(err, ErrConsumerNotFound) {
		return false
	}
	return err != nil || slices.ContainsFunc(reads, func(n int) bool { return slices.Contains(partitions, n) })
}
