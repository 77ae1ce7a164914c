package sweep

import (
	"context"
	"time"
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

// Age makes all messages that are left to their readers older by d.
func (s *Sweeper) Age(d time.Duration) {
	for _, w := range s.streams {
		for i := range w.left {
			w.left[i].since = w.left[i].since.Add(-d)
		}
	}
}
