package sweep

import "context"

// Round sweeps once.
func (s *Sweeper) Round(ctx context.Context) (err error) {
	for _, w := range s.streams {
		if err = s.sweep(ctx, w); err != nil {
			return err
		}
	}
	return nil
}
