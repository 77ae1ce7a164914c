package observe

import (
	"context"
	"log/slog"
	"sync"

	"golang.org/x/time/rate"
)

const (
	// A message is logged at most messagesAtOnce times at once, and then messageRate times a second: clients, models and
	// tools can cause many of them as fast as they send.
	messagesAtOnce = 200
	messageRate    = 10
	// maxMessages limits the messages that are told apart. Beyond that, all are counted from the beginning.
	maxMessages = 1024
)

// sparing is a handler that limits how often a message is logged, whatever its attributes. The next record of a message
// has in left_out how many were left out before. Debug records are not limited.
type sparing struct {
	slog.Handler
	counts *counts
}

type counts struct {
	mu sync.Mutex
	of map[string]*count
}

type count struct {
	limit *rate.Limiter
	left  int
}

func newSparing(to slog.Handler) slog.Handler { return sparing{to, &counts{of: map[string]*count{}}} }

func (s sparing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return sparing{s.Handler.WithAttrs(attrs), s.counts}
}

func (s sparing) WithGroup(name string) slog.Handler {
	return sparing{s.Handler.WithGroup(name), s.counts}
}

func (s sparing) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		left, ok := s.counts.take(r.Message)
		if !ok {
			return nil
		}
		if left > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("left_out", left))
		}
	}
	return s.Handler.Handle(ctx, r)
}

// take reports whether a message may be logged now and, if so, how often it was left out since it was logged last.
func (c *counts) take(message string) (left int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.of[message]
	if one == nil {
		if len(c.of) >= maxMessages {
			clear(c.of)
		}
		one = &count{limit: rate.NewLimiter(messageRate, messagesAtOnce)}
		c.of[message] = one
	}
	if !one.limit.Allow() {
		one.left++
		return 0, false
	}
	left, one.left = one.left, 0
	return left, true
}
