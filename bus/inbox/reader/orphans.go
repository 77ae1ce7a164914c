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
// no answer came. overlapping are partitions that no live runner reports to read, and that another consumer has
// nevertheless had for a while: the servers have created it late, when the runner that had requested it read other
// partitions already. Such a consumer is deleted even though its runner is live. That runner creates a new one if it
// does use it.
func (r *Reader) deleteOrphans(ctx context.Context, view membership.View, overlapping []int) error {
	names, failed := r.o.Queue.Names(ctx)
	for _, name := range names {
		id := name[:max(strings.LastIndexByte(name, '_'), 0)]
		if id != r.o.ID && slices.Contains(view.IDs, id) {
			reads, err := r.readsOf(ctx, name, overlapping)
			if err != nil {
				failed = errors.Join(failed, err) // the others may be the orphans
			}
			if len(reads) == 0 {
				continue
			}
		}
		r.o.Logger.Info("deleting a consumer that no runner reads from", "consumer", name)
		if _, err := r.o.Queue.Delete(ctx, name); err != nil {
			return errors.Join(failed, fmt.Errorf("inbox: delete consumer %s: %w", name, err))
		}
	}
	return failed
}

// readsOf returns which of the partitions a consumer has.
func (r *Reader) readsOf(ctx context.Context, name string, partitions []int) ([]int, error) {
	if len(partitions) == 0 {
		return nil, nil
	}
	reads, err := r.o.Queue.Reads(ctx, name)
	if err != nil && !errors.Is(err, ErrConsumerNotFound) {
		return nil, fmt.Errorf("inbox: partitions of consumer %s: %w", name, err)
	}
	return slices.DeleteFunc(reads, func(n int) bool { return !slices.Contains(partitions, n) }), nil
}
