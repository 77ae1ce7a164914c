package retention

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const (
	// A full log is given firstRoom bytes more for a fence, then four times as many, up to mostRoom: the writers that wait
	// for room take some of it, too.
	firstRoom, mostRoom = 16 << 10, 4 << 20
	roomTimeout         = 5 * time.Second // of one change of the limit
	// metadataLimit is the member of the log's metadata that has its own limit and the one to which it is raised, as two
	// numbers, while it is raised.
	metadataLimit = "loopbus-max-bytes"
)

// fence stores the fence of a deletion. A log that has reached its limit has no room for it, although the deletion is
// what makes room: fence raises the limit then. The caller calls narrow when the deletion has ended.
func (d *Deleter) fence(ctx context.Context, session, id string, tail uint64) (narrow func(), err error) {
	narrow = func() {}
	_, err = d.o.Store.Fence(ctx, session, id, tail)
	for more := int64(firstRoom); natsio.NoRoom(err) && more <= mostRoom; more *= 4 {
		narrow = func() {
			if failed := d.narrow(context.WithoutCancel(ctx)); failed != nil {
				d.o.Logger.Warn("the log has more room than before", "stream", schemas.StreamEvents, "err", failed)
			}
		}
		failed := d.changeLimit(ctx, func(own, _ int64) (int64, bool) { return own + more, own > 0 })
		if failed != nil {
			return narrow, fmt.Errorf("%w: a deletion needs some KiB of room in %s: raise its limit: %w", err,
				schemas.StreamEvents, failed)
		}
		_, err = d.o.Store.Fence(ctx, session, id, tail)
	}
	return narrow, err
}

// narrow sets the limit of the log to its own again if a deletion has raised it: this one, one at the same time, or one
// whose process was lost. What the log has beyond its limit stays.
func (d *Deleter) narrow(ctx context.Context) error {
	return d.changeLimit(ctx, func(own, has int64) (int64, bool) { return own, has != own })
}

// changeLimit gives the log the limit that change returns for its own and the one that it has.
func (d *Deleter) changeLimit(ctx context.Context, change func(own, has int64) (limit int64, changed bool)) error {
	ctx, cancel := context.WithTimeout(ctx, roomTimeout)
	defer cancel()
	stream, err := d.conn.JetStream().Stream(ctx, schemas.StreamEvents)
	if err != nil {
		return err
	}
	config := stream.CachedInfo().Config
	own := ownLimit(config)
	limit, changed := change(own, config.MaxBytes)
	if !changed {
		return nil
	}
	config.Metadata = maps.Clone(config.Metadata)
	if limit == own {
		delete(config.Metadata, metadataLimit)
	} else {
		if config.Metadata == nil {
			config.Metadata = map[string]string{}
		}
		config.Metadata[metadataLimit] = fmt.Sprintf("%d %d", own, limit)
	}
	config.MaxBytes = limit
	_, err = d.conn.JetStream().UpdateStream(ctx, config)
	return err
}

// ownLimit returns the limit of the log while none is raised. An operator who has changed a raised one has set another.
func ownLimit(config jetstream.StreamConfig) int64 {
	var own, raised int64
	if _, err := fmt.Sscanf(config.Metadata[metadataLimit], "%d %d", &own, &raised); err == nil &&
		raised == config.MaxBytes {
		return own
	}
	return config.MaxBytes
}
