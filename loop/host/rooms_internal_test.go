package host

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/loopbus/loopbus/schemas/turns"
)

// Sessions of a class share a room, and those of another do not wait for them. One session may have all of it, however
// large it is.
func TestRooms(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	r := newRooms(4 * limit)
	try := func(bytes int, want bool) (got room) {
		t.Helper()
		got, ok := r.try(bytes)
		if ok != want {
			t.Errorf("room for %d bytes: %v, want %v", bytes, ok, want)
		}
		return got
	}
	all := try(mediumSession+1, true)
	try(mediumSession+2, false)
	half := try(limit/2, true)
	if !r.grow(&half, limit*3/4) || half.bytes != limit*3/4 {
		t.Errorf("a session that grows has room for %d bytes", half.bytes)
	}
	try(limit/2, false)
	if !r.grow(&half, limit*7/8) || half.bytes != limit*3/4 {
		t.Errorf("a session that grows a little has room for %d bytes", half.bytes)
	}
	try(smallSession, true)
	if r.grow(&half, mediumSession+1) || half.class != medium || half.bytes != limit*3/4 {
		t.Errorf("a session that becomes large has room for %d bytes of class %d", half.bytes, half.class)
	}
	all.free()
	all.free()
	if !r.grow(&half, largeSession) || half.class != large || half.bytes != limit {
		t.Errorf("a session that has become large has room for %d bytes of class %d", half.bytes, half.class)
	}
	other := try(limit, true)
	other.free()
	if !r.grow(&half, limit/2) || half.class != large {
		t.Error("a session that shrinks has lost its room")
	}
	half.free()
	largest := try(largeSession+1, true)
	largest.free()
	for c, of := range r.of {
		if !of.Idle() {
			t.Errorf("room of class %d was not given back", c)
		}
	}
	if _, err := r.wait(context.Background(), smallSession); err != nil {
		t.Error(err)
	}
}

// Of those who load much, two go on. The others wait until one of them has ended, and those who load little for nobody.
func TestLargeLoadsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRooms(1 << 20)
		through := make(chan int, 10)
		begin := func(n, bytes int) (end func()) {
			ctx, end := r.load(t.Context())
			go func() {
				for range 2 {
					if err := turns.Pass(ctx, bytes/2); err != nil {
						t.Error(err)
					}
				}
				through <- n
			}()
			synctest.Wait()
			return end
		}
		first, second := begin(1, largeLoad+2), begin(2, 10*largeLoad)
		third, little := begin(3, largeLoad+2), begin(4, largeLoad)
		if len(through) != 3 {
			t.Errorf("%d loads went on, want 3", len(through))
		}
		first()
		synctest.Wait()
		if len(through) != 4 {
			t.Error("the third load still waits")
		}
		for _, end := range []func(){second, third, little} {
			end()
		}
		if !r.loads.Idle() {
			t.Error("a turn was not given back")
		}
	})
}
