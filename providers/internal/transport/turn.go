package transport

import (
	"context"
	"runtime"
	"time"

	"github.com/loopbus/loopbus/schemas/turns"
)

// turnTime is how long a reply that is decoded keeps its turn, at most: it may have to wait for something else.
const turnTime = 20 * time.Millisecond

// decoding has the turns of each server's replies to be decoded. A server that sends to hundreds of sessions as fast as
// they read would otherwise keep hundreds of goroutines ready to run: each step of everybody else waited behind them,
// half a second each time.
var decoding = turns.New[string](atOnce)

// atOnce is how many replies of a server are decoded at once.
var atOnce = max(2, runtime.GOMAXPROCS(0))

// turn is that of one reply. The zero value has none. It is not safe for concurrent use.
type turn struct {
	timer *time.Timer
	end   func()
}

// take waits for a turn to decode what a server has sent, unless ctx ends.
func (t *turn) take(ctx context.Context, server string) {
	end, err := decoding.Wait(ctx, server, 1)
	if err != nil {
		return
	}
	t.end, t.timer = end, time.AfterFunc(turnTime, end)
}

// leave ends the turn, if there is one.
func (t *turn) leave() {
	if t.end != nil {
		t.timer.Stop()
		t.end()
		t.end = nil
	}
}
