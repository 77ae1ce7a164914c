package retention

import (
	"context"
	"time"
)

// SetServerTime has a keeper take the time of the server from now.
func (k *Keeper) SetServerTime(now func() time.Time) {
	k.now = func(context.Context) (time.Time, error) { return now(), nil }
}
