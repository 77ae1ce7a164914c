package room_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/loopbus/loopbus/tools/internal/room"
)

// Work waits for its room in turn, and no longer than its context.
func TestRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := room.New(10)
		four, err := r.Take(t.Context(), 4)
		if err != nil {
			t.Fatal(err)
		}
		six, err := r.Take(t.Context(), 6)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		all, late := make(chan error, 1), make(chan error, 1)
		go func() {
			leave, err := r.Take(t.Context(), 1000)
			if err == nil {
				leave()
			}
			all <- err
		}()
		synctest.Wait()
		go func() { _, err := r.Take(ctx, 1); late <- err }()
		four()
		synctest.Wait()
		if len(all)+len(late) > 0 {
			t.Error("what takes all did not wait, or was overtaken")
		}
		cancel()
		if err := <-late; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		six()
		if err := <-all; err != nil {
			t.Errorf("all: %v", err)
		}
	})
}

// What large work leaves is returned before the next begins.
func TestMemoryIsReturned(t *testing.T) { // not parallel: it measures the process
	const large = 256 << 20
	leave, err := room.New(large).Take(t.Context(), large)
	if err != nil {
		t.Fatal(err)
	}
	work := make([]byte, large)
	work[len(work)-1] = 1
	runtime.KeepAlive(work)
	leave()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if n := m.HeapSys - m.HeapReleased; n > large/2 {
		t.Errorf("%d MiB are kept", n>>20)
	}
}
