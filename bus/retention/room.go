package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const (
	// A full log is given firstRoom bytes more for a fence, then four times as many, up to mostRoom: the writers that wait
	// for room take some of it, too.
	firstRoom, mostRoom = 16 << 10, 4 << 20
	roomTimeout         = 5 * time.Second // of one change of the limit
)

// fence stores the fence of a deletion. A log that has reached its limit has no room for it, although the deletion is
// what makes room: fence raises the limit then. The caller calls narrow when the deletion has ended.
func (d *Deleter) fence(ctx context.Context, session, id string, tail uint64) (narrow func(), err error) {
	if _, err = d.o.Store.Fence(ctx, session, id, tail); !natsio.NoRoom(err) {
		return func() {}, err
	}
	stream, failed := d.conn.JetStream().Stream(ctx, schemas.StreamEvents)
	if failed != nil {
		return func() {}, errors.Join(err, failed)
	}
	limit := stream.CachedInfo().Config.MaxBytes
	narrow = func() {
		if failed := d.setLimit(context.WithoutCancel(ctx), limit); failed != nil {
			d.o.Logger.Warn("the log has more room than before", "stream", schemas.StreamEvents, "limit", limit, "err", failed)
		}
	}
	for more := int64(firstRoom); natsio.NoRoom(err) && more <= mostRoom && limit > 0; more *= 4 {
		if failed := d.setLimit(ctx, limit+more); failed != nil {
			return narrow, fmt.Errorf("%w: a deletion needs some KiB of room in %s: raise its limit: %w", err,
				schemas.StreamEvents, failed)
		}
		_, err = d.o.Store.Fence(ctx, session, id, tail)
	}
	return narrow, err
}

// setLimit sets the limit of the log in bytes, unless it has more.
func (d *Deleter) setLimit(ctx context.Context, limit int64) error {
	ctx, cancel := context.WithTimeout(ctx, roomTimeout)
	defer cancel()
	stream, err := d.conn.JetStream().Stream(ctx, schemas.StreamEvents)
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	if info.State.Bytes > uint64(limit) {
		return fmt.Errorf("it has %d bytes", info.State.Bytes)
	}
	config := info.Config
	config.MaxBytes = limit
	_, err = d.conn.JetStream().UpdateStream(ctx, config)
	return err
}
