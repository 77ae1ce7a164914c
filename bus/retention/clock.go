package retention

import (
	"context"
	"fmt"
	"time"
)

// clocksApart is the difference of two clocks of which the operator is told.
const clocksApart = time.Minute

// time returns the earlier one of the server's time and this machine's, so that one clock that is ahead deletes no
// sessions.
func (k *Keeper) time(ctx context.Context) (time.Time, error) {
	server, err := k.now(ctx)
	own := k.own()
	if apart := server.Sub(own).Abs(); err == nil && apart > clocksApart {
		k.o.Logger.Warn("clocks differ: sessions are as old as the earlier one says", "difference", apart.String(),
			"server", server, "runner", own)
	}
	if own.Before(server) {
		return own, err
	}
	return server, err
}

// serverTime returns the time of the server that has the bucket.
func (d *Deleter) serverTime(ctx context.Context) (time.Time, error) {
	s, err := d.conn.JetStream().Stream(ctx, recordStream)
	if err != nil {
		return time.Time{}, fmt.Errorf("time of the server: %w", err)
	}
	return s.CachedInfo().TimeStamp, nil
}
