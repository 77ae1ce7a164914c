package inbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// maxListed is how many messages the stream may have for [queue.Stored] to list their subjects.
const maxListed = 10_000

// First asks the leader of the stream. Only a consumer of a replicated stream skips messages.
func (q queue) First(ctx context.Context, p reader.Place, after uint64) (seq uint64, err error) {
	if !q.replicated.Load() {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	request := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":"%s.cmd.%d.%s.>"}`, after+1, q.conn.Subjects().Prefix(),
		p.Partition, p.Session)
	m, _, err := natsio.Get(ctx, q.conn.JetStream(), schemas.StreamCommands, request)
	return m.Sequence, err
}

func (q queue) Stored(ctx context.Context, c *reader.Consumer) (map[reader.Place]int, error) {
	if !q.replicated.Load() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	info, err := q.info(ctx, c.Name)
	if err != nil || info.NumPending > 0 {
		return nil, err
	}
	all, err := q.stream.Info(ctx)
	if err != nil {
		return nil, err
	}
	return q.list(ctx, c, all.State.Msgs)
}

// list returns how many messages of each session are stored in the partitions of a consumer, nil if the stream has too
// many to list.
func (q queue) list(ctx context.Context, c *reader.Consumer, all uint64) (map[reader.Place]int, error) {
	if all > maxListed {
		return nil, nil
	}
	info, err := natsio.LeaderInfo(ctx, q.conn.JetStream(), schemas.StreamCommands,
		jetstream.WithSubjectFilter(q.conn.Subjects().Prefix()+".cmd.>"))
	if err != nil {
		return nil, err
	}
	stored := map[reader.Place]int{}
	for subject, n := range info.State.Subjects {
		p := reader.Place{Partition: partitionOf(q.conn.Subjects(), subject)}
		if p.Session, _, err = q.conn.Subjects().ParseCommand(subject); err == nil && slices.Contains(c.Reads, p.Partition) {
			stored[p] += int(n)
		}
	}
	return stored, nil
}

// count returns how many messages are stored in the partitions of a consumer. It returns 0 without replicas, and if
// there are too many to list.
func (q queue) count(ctx context.Context, c *reader.Consumer) (n uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	info, err := q.stream.Info(ctx)
	if err == nil && info.Config.Replicas > 1 {
		q.replicated.Store(true)
		stored, failed := q.list(ctx, c, info.State.Msgs)
		for _, some := range stored {
			n += uint64(some)
		}
		err = failed
	}
	if err != nil {
		return 0, fmt.Errorf("inbox: what %s has for consumer %s: %w", schemas.StreamCommands, c.Name, err)
	}
	return n, nil
}
