package driver

import (
	"context"
	"sync"

	"github.com/loopbus/loopbus/schemas"
)

// feed gives the deltas of one reply to those who watch, but not before its message_start is stored, so that no delta
// overtakes it. The model is never kept waiting for that: what it says meanwhile is held, and if the reply is complete
// before the log is, nobody needs its deltas any more.
type feed struct {
	live Live
	log  Log

	mu      sync.Mutex
	held    []schemas.Update
	waiting bool // somebody waits for the log
	open    bool // the message_start is stored
	closed  bool // the reply is complete
}

// put takes one delta.
func (f *feed) put(ctx context.Context, u schemas.Update) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open {
		f.live.Update(ctx, u)
		return
	}
	f.held = append(f.held, u)
	if !f.waiting {
		f.waiting = true
		go f.release(ctx)
	}
}

// release gives out what is held once the log has what they belong to. It ends with the flush, which ends with ctx.
func (f *feed) release(ctx context.Context) {
	err := f.log.Flush(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil || f.closed {
		return // the driver will find out by itself
	}
	f.open = true
	for _, u := range f.held {
		f.live.Update(ctx, u)
	}
	f.held = nil
}

// close ends the feed: no delta goes out after it returns.
func (f *feed) close(ctx context.Context, session string, event uint64) {
	f.mu.Lock()
	open := f.open
	f.open, f.closed, f.held = false, true, nil
	f.mu.Unlock()
	if open {
		f.live.Settle(ctx, session, event)
	}
}
