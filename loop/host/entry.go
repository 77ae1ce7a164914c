package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/internal/panics"
	"github.com/loopbus/loopbus/schemas"
)

// entry is a session that the host has loaded, or is loading.
type entry struct {
	session string
	loaded  chan struct{} // closed when driver and log are set, or err is
	driver  *driver.Driver
	log     SessionLog
	err     error
	stopped bool   // loading has failed because the delivery that did it was stopped
	saved   uint64 // sequence of the newest snapshot

	users  int       // deliveries under way; the host's lock guards these
	lookAt time.Time // when the timer of its sub-agents is due that this process has set, zero for none
	since  time.Time // at rest since
	broken bool
	logged bool // its loss
}

// acquire returns the entry of a session, loading it if need be. fresh says that this call has loaded it.
func (h *Host) acquire(ctx context.Context, session string) (e *entry, fresh bool, err error) {
	for {
		e, fresh = h.attach(session)
		if fresh {
			e.err = panics.Guard("log", func() error { return h.load(ctx, e) })
			e.stopped = e.err != nil && ctx.Err() != nil
			close(e.loaded)
		}
		select {
		case <-e.loaded:
		case <-ctx.Done():
			h.leave(e, false)
			return nil, false, ctx.Err()
		}
		if e.err == nil {
			return e, fresh, nil
		}
		h.leave(e, true)
		if !e.stopped || fresh {
			return nil, false, e.err
		}
	}
}

// attach returns the entry of a session with one user more. A fresh one is to be loaded by the caller.
func (h *Host) attach(session string) (e *entry, fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e = h.entries[session]; e == nil {
		fresh = true
		e = &entry{session: session, loaded: make(chan struct{})}
		h.entries[session] = e
	}
	if e.users == 0 {
		h.rest = slices.DeleteFunc(h.rest, func(other *entry) bool { return other == e })
	}
	e.users++
	return e, fresh
}

// load reads the session's snapshot and the tail of its log.
func (h *Host) load(ctx context.Context, e *entry) (err error) {
	opened := h.o.Clock.Now()
	log, err := h.o.Open(ctx, e.session)
	if err != nil { // the log may be a nil pointer, which as an interface is not nil
		return fmt.Errorf("load session %s: %w", e.session, err)
	}
	e.log = log
	state, saved, err := h.read(ctx, e.log, e.session, 0)
	if err != nil {
		return fmt.Errorf("load session %s %w", e.session, err)
	}
	e.saved = saved
	e.driver = driver.New(driver.Options{
		Deps: h.o.Deps, Log: e.log, Opened: opened, Configure: h.configure, InputHooks: h.inputHooks,
		Expand: h.expand,
		Path:   h.path,
	}, state)
	return nil
}

// seq is the sequence of the session's state.
func (e *entry) seq() (n uint64) {
	e.driver.View(func(st *loop.State) { n = st.Seq })
	return n
}

// release releases an entry after a delivery that ended with err. The session stays loaded unless it is lost:
// then what this process believes of it may be ahead of the log.
func (h *Host) release(ctx context.Context, e *entry, err error) {
	broken := driver.Lost(err)
	defer func() { h.leave(e, broken) }()
	if err == nil {
		h.save(ctx, e)
		return
	}
	if broken {
		e.driver.GiveUp(err)
	}
	if unstored := h.storeDecided(ctx, e, err); unstored != nil && !broken {
		broken = true
		e.driver.GiveUp(unstored)
	}
}

// leave counts one user less. The last one closes a broken entry and puts any other on the list of those at rest.
func (h *Host) leave(e *entry, broken bool) {
	h.mu.Lock()
	e.users--
	e.broken = e.broken || broken
	if e.broken && h.entries[e.session] == e {
		delete(h.entries, e.session)
	}
	var closing []*entry
	switch {
	case e.users > 0:
	case e.broken:
		closing = []*entry{e}
	default:
		e.since = h.o.Clock.Now()
		h.rest = append(h.rest, e)
		closing = h.evict()
	}
	h.mu.Unlock()
	for _, old := range closing {
		h.close(old)
	}
}

// close gives up what an entry that nobody uses has, and has [Host.Close] wait for it.
func (h *Host) close(e *entry) {
	if e.log != nil {
		e.log.Close()
	}
	if e.driver != nil {
		h.left.Go(func() { _ = e.driver.Wait(context.Background()) })
	}
}

// storeDecided lets what has been decided reach the log before a message is nak'd because of cause, so that the process
// that gets the message next finds all of it. The error says that this did not succeed. That the session is lost to
// another runner is logged once, however many deliveries learn of it.
func (h *Host) storeDecided(ctx context.Context, e *entry, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.o.FlushTimeout)
	defer cancel()
	err := e.log.Flush(ctx)
	var conflict *schemas.ConflictError
	lost := errors.As(err, &conflict) || errors.As(cause, &conflict)
	if err == nil && !lost || !h.firstLoss(e) {
		return err
	}
	if lost {
		h.o.Logger.Warn("session lost: another runner has it", "session", e.session, "seq", conflict.Seq)
	} else {
		h.o.Logger.Warn("session given up", "session", e.session, "err", err)
	}
	return err
}

// firstLoss reports whether the loss of an entry has not been logged before.
func (h *Host) firstLoss(e *entry) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first, e.logged = !e.logged, true
	return first
}

// evict removes sessions that are too many or have rested too long from the list. The caller holds the lock.
func (h *Host) evict() (closing []*entry) {
	n := max(len(h.rest)-h.o.CacheSize, 0)
	for n < len(h.rest) && h.o.Clock.Now().Sub(h.rest[n].since) > h.o.CacheAge {
		n++
	}
	closing = slices.Clone(h.rest[:n])
	h.rest = slices.Delete(h.rest, 0, n)
	for _, e := range closing {
		delete(h.entries, e.session)
	}
	return closing
}

// save writes a snapshot if it is due: at a distance in proportion to the context, and so to what is written. A session
// goes on without one.
func (h *Host) save(ctx context.Context, e *entry) {
	var raw []byte
	var seq uint64
	var err error
	e.driver.View(func(st *loop.State) {
		seq = st.Seq
		if seq-e.saved >= max(h.o.SnapshotEvery, uint64(len(st.Messages))) {
			raw, err = json.Marshal(st)
			e.saved = seq
		}
	})
	if raw == nil && err == nil {
		return
	}
	if err == nil {
		if err = e.log.Flush(ctx); err == nil {
			err = e.log.SaveSnapshot(ctx, loop.FoldVersion, seq, raw)
		}
	}
	if err != nil {
		h.o.Logger.Warn("snapshot not saved", "session", e.session, "seq", seq, "err", err)
	}
}

// Loaded returns how many sessions the host has in memory, at rest or not.
func (h *Host) Loaded() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.entries)
}
