package host

import (
	"context"
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// load reads the session's snapshot and the rest of its log, and makes its driver. If the session is large it first
// waits for room. How large it is may be known only when it is loaded; then it is dropped, and loaded again once there
// is room.
func (h *Host) load(ctx context.Context, e *entry) error {
	for known, loaded := e.bytes, false; !loaded; {
		if classOf(known) != small {
			mayWait(ctx)
		}
		got, err := h.rooms.waitOr(ctx, known, e.abort.sent)
		if err != nil {
			return fmt.Errorf("load session %s: wait for memory: %w", e.session, err)
		}
		if known, loaded, err = h.loadInto(ctx, e, got); err != nil {
			return err
		}
	}
	return nil
}

// loadInto loads a session that has room. It returns the size of the session, and loaded if the room was enough, or
// there was more. Otherwise it leaves nothing in memory.
func (h *Host) loadInto(ctx context.Context, e *entry, got room) (size int, loaded bool, err error) {
	defer func() {
		if !loaded {
			got.free()
		}
	}()
	opened := h.o.Clock.Now()
	log, err := h.o.Open(ctx, e.session)
	if err != nil { // e.log stays nil: log may be a nil pointer in a non-nil interface
		return 0, false, fmt.Errorf("load session %s: %w", e.session, err)
	}
	e.log = log
	state, saved, err := h.read(ctx, log, e.session, 0)
	if err != nil {
		return 0, false, fmt.Errorf("load session %s %w", e.session, err)
	}
	size = state.Bytes()
	if loaded = h.rooms.grow(&got, size, false); !loaded {
		e.log = nil
		log.Close()
		return size, false, nil
	}
	e.saved = saved
	e.abort.only = got.class.aborts()
	e.driver = driver.New(driver.Options{
		Deps: h.o.Deps, Log: log, Opened: opened, Configure: h.configure, InputHooks: h.inputHooks, Expand: h.expand,
		Loads: h.o.Loads, Path: h.path, Room: func(bytes int) error { return h.grow(e, bytes, true) },
		Hurry: func(end func()) { h.hurry(e, end) },
	}, state)
	h.mu.Lock()
	e.bytes = size
	closing := h.enter(e, got)
	h.mu.Unlock()
	h.closeAll(closing)
	return size, true, nil
}

// grow takes more room for an entry at work, which goes on with its run unless it is only weighed. The error wraps
// [schemas.ErrLater] if there is none.
func (h *Host) grow(e *entry, bytes int, goesOn bool) error {
	h.mu.Lock()
	var closing []*entry
	had, aborting := e.room.bytes, e.room.class.aborts()
	ok := h.rooms.grow(&e.room, bytes, goesOn)
	if !ok {
		h.needs.put(e.session, bytes)
	}
	if more := e.room.bytes - had; more != 0 {
		h.working += more
		closing = h.evict()
	}
	h.mu.Unlock()
	h.closeAll(closing)
	switch {
	case ok:
		return nil
	case aborting && goesOn:
		return fmt.Errorf("session %s with %d bytes waits until others rest: %w", e.session, bytes, errAbortedOnly)
	}
	return fmt.Errorf("session %s has grown to %d bytes, and waits until others rest: %w", e.session, bytes,
		schemas.ErrLater)
}

// enter gives room to an entry at work, and returns the entries at rest that have to make room. The caller holds the
// lock and closes them.
func (h *Host) enter(e *entry, got room) (closing []*entry) {
	e.room = got
	if got.bytes == 0 {
		return nil
	}
	h.working += got.bytes
	return h.evict()
}

// weigh notes what a session takes in memory. A session at work that has grown, as other users have delivered inputs to
// it, and for which there is no more room is given up: weigh returns true.
func (h *Host) weigh(e *entry) (broken bool) {
	n := 0
	e.driver.View(func(st *loop.State) { n = st.Bytes() })
	h.mu.Lock()
	e.bytes = n
	last := e.users == 1
	h.mu.Unlock()
	if last {
		return false
	}
	err := h.grow(e, n, false)
	if err != nil {
		e.driver.GiveUp(err)
	}
	return err != nil
}
