package retention

import (
	"context"
	"time"
)

// SetServerTime has a keeper take the time of the server from now.
func (k *Keeper) SetServerTime(now func() time.Time) {
	k.now = func(context.Context) (time.Time, error) { return now(), nil }
}

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
