package retention

import (
	"context"
	"time"
)

// SetTime sets the clocks of a keeper's server and machine.
func (k *Keeper) SetTime(server, own func() time.Time) {
	k.now, k.own = func(context.Context) (time.Time, error) { return server(), nil }, own
}

// SetTook sets how long the last round took.
func (k *Keeper) SetTook(d time.Duration) { k.took = d }

// Late returns what a deleter does next that has found the fence of a deletion.
func (d *Deleter) Late(ctx context.Context, session string) (next func() error, err error) {
	rec, err := d.load(ctx, session)
	if err != nil {
		return nil, err
	}
	fence, err := d.o.Store.Fenced(ctx, session, rec.ID)
	return func() error {
		_, err := d.bound(ctx, rec, fence)
		return err
	}, err
}
