package index

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// One session's readers wait while it has its part; those of another session do not wait for them.
func TestReadersOfASessionLeaveSomeForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ix := &Index{readers: newReaders()}
		held, reading := make(chan struct{}), new(atomic.Int64)
		for range 3 * mostReaders {
			go func() {
				_ = ix.Read(t.Context(), "s1", func() error {
					reading.Add(1)
					<-held
					return nil
				})
			}()
			synctest.Wait()
		}
		if n := reading.Load(); n != mostOfSession {
			t.Errorf("one session has %d readers, want %d", n, mostOfSession)
		}
		if err := ix.Read(t.Context(), "s2", func() error { return nil }); err != nil {
			t.Errorf("another session: %v", err)
		}
		ended, end := context.WithCancelCause(t.Context())
		why := errors.New("gone")
		end(why)
		if err := ix.Read(ended, "s1", func() error { return nil }); !errors.Is(err, why) {
			t.Errorf("a reader that gave up: %v", err)
		}
		close(held)
		synctest.Wait()
		if n := reading.Load(); n != 3*mostReaders || len(ix.readers.sessions) != 0 {
			t.Errorf("%d have read, and %d sessions are remembered", n, len(ix.readers.sessions))
		}
	})
}
