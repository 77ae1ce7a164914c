package sweep

import (
	"context"
	"time"

	"github.com/loopbus/loopbus/bus/natsio"
)

// Round sweeps once.
func (s *Sweeper) Round(ctx context.Context) (err error) {
	for _, w := range s.streams {
		if err = s.sweep(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// FireOverdue searches for timers that are overdue by more than late.
func (s *Sweeper) FireOverdue(ctx context.Context, late time.Duration) error {
	s.overdueAfter = late
	return s.fireOverdue(ctx)
}

// Meanwhile calls f whenever a message has been read, before it is judged.
func (s *Sweeper) Meanwhile(f func(natsio.Stored)) {
	for _, w := range s.streams {
		meant := w.meant
		w.meant = func(m natsio.Stored) bool {
			f(m)
			return meant(m)
		}
	}
}

// Age makes all messages that are left to their readers older by d.
func (s *Sweeper) Age(d time.Duration) {
	for _, w := range s.streams {
		for i := range w.left {
			w.left[i].since = w.left[i].since.Add(-d)
		}
	}
}
