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
	stream, err := q.conn.JetStream().Stream(ctx, schemas.StreamCommands)
	if err != nil || stream.CachedInfo().State.Msgs > maxListed {
		return nil, err
	}
	info, err := q.info(ctx, c.Name)
	if err != nil || info.NumPending > 0 {
		return nil, err
	}
	state, err := stream.Info(ctx, jetstream.WithSubjectFilter(q.conn.Subjects().Prefix()+".cmd.>"))
	if err != nil {
		return nil, err
	}
	stored := map[reader.Place]int{}
	for subject, n := range state.State.Subjects {
		p := reader.Place{Partition: partitionOf(q.conn.Subjects(), subject)}
		if p.Session, _, err = q.conn.Subjects().ParseCommand(subject); err == nil && slices.Contains(c.Reads, p.Partition) {
			stored[p] += int(n)
		}
	}
	return stored, nil
}
