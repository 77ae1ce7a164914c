package host

import (
	"context"
	"testing"
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
	if !r.grow(&half, limit*3/4, true) || half.bytes != limit*3/4 {
		t.Errorf("a session that grows has room for %d bytes", half.bytes)
	}
	try(limit/2, false)
	if !r.grow(&half, limit*7/8, true) || half.bytes != limit*3/4 {
		t.Errorf("a session that grows a little has room for %d bytes", half.bytes)
	}
	try(smallSession, true)
	if r.grow(&half, mediumSession+1, true) || half.class != medium || half.bytes != limit*3/4 {
		t.Errorf("a session that becomes large has room for %d bytes of class %d", half.bytes, half.class)
	}
	all.free()
	all.free()
	if !r.grow(&half, largeSession, true) || half.class != large || half.bytes != limit {
		t.Errorf("a session that has become large has room for %d bytes of class %d", half.bytes, half.class)
	}
	other := try(limit, true)
	other.free()
	if !r.grow(&half, limit/2, true) || half.class != large {
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

// A session that is to be aborted has room of its own, and takes more of that when it grows. To go on it leaves it.
func TestTheRoomForAborts(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	r := newRooms(8 * limit)
	abort := make(chan struct{})
	close(abort)
	medium, ok := r.try(limit)
	more, too := r.try(limit)
	if !ok || !too {
		t.Fatal("no room")
	}
	defer more.free()
	has, err := r.waitOr(t.Context(), limit/2, abort)
	if err != nil || has.class != urgent {
		t.Fatal(has, err)
	}
	if !r.grow(&has, limit*9/16, false) || has.bytes != limit/2 {
		t.Errorf("one that grows a little has room for %d bytes", has.bytes)
	}
	if !r.grow(&has, limit*3/4, false) || has.bytes != limit*3/4 || has.class != urgent {
		t.Errorf("one that grows has room for %d bytes of class %d", has.bytes, has.class)
	}
	other, err := r.waitOr(t.Context(), limit/16, abort) // takes none: it is small
	if err != nil || other.bytes != 0 {
		t.Error(other, err)
	}
	if other, err = r.waitIn(ended, urgent, limit/4); err != nil {
		t.Error(err)
	}
	if r.grow(&has, limit, false) || r.grow(&has, limit*3/4, true) || has.bytes != limit*3/4 {
		t.Errorf("there is no room, and it has %d bytes", has.bytes)
	}
	medium.free()
	if !r.grow(&has, limit*3/4, true) || has.class == urgent {
		t.Error("it does not go on although there is room")
	}
	has.free()
	other.free()
	if !r.of[urgent].Idle() {
		t.Error("room was not given back")
	}
}

// A huge session that is to be aborted does not keep smaller ones from it, and one that becomes huge leaves their room.
func TestHugeSessionsAreAbortedBesideOthers(t *testing.T) {
	t.Parallel()
	r := newRooms(64 << 20)
	abort := make(chan struct{})
	close(abort)
	all, ok := r.try(32 << 20)
	medium, too := r.try(1 << 20)
	if !ok || !too {
		t.Fatal("no room")
	}
	defer all.free()
	defer medium.free()
	huge, err := r.waitOr(t.Context(), 32<<20, abort)
	if err != nil || huge.class != urgentHuge {
		t.Fatal(huge, err)
	}
	has, ok := r.tryIn(urgent, 1<<20)
	if !ok {
		t.Fatal("a session waits for a huge one to be aborted")
	}
	if r.grow(&has, 8<<20, false) {
		t.Error("one that becomes huge finds room beside the other")
	}
	huge.free()
	if !r.grow(&has, 8<<20, false) || has.class != urgentHuge || !r.of[urgent].Idle() {
		t.Errorf("one that becomes huge has room of class %d", has.class)
	}
	has.free()
}
