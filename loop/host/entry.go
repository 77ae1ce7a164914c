package host

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/internal/panics"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/priority"
)

// entry is a session that the host has loaded or is loading.
type entry struct {
	session string
	loaded  chan struct{} // closed when driver and log are set, or err is
	driver  *driver.Driver
	log     SessionLog
	err     error
	stopped bool   // the load failed because the delivery that loaded was stopped
	saved   uint64 // sequence of the newest snapshot
	abort   abort

	// The host's lock guards these:
	users   int       // deliveries under way
	checkAt time.Time // when the timer for its sub-agents fires that this process has set; zero if none
	since   time.Time // when it came to rest
	bytes   int       // what it took in memory then, or when it was loaded
	room    room      // what it has while it is at work
	broken  bool
	logged  bool // the loss of the session was logged
}

// acquire returns the entry of a session, and loads the session if necessary; fresh reports that this call has done so.
func (h *Host) acquire(ctx context.Context, session string) (e *entry, fresh bool, err error) {
	for {
		e, fresh = h.attach(session)
		unholdLost(ctx, e)
		if isAbortive(ctx) {
			e.abort.send()
		}
		if fresh {
			e.err = panics.Guard("log", func() error { return h.load(ctx, e) })
			e.stopped = e.err != nil && ctx.Err() != nil
			close(e.loaded)
		}
		if err := e.await(ctx); err != nil {
			h.leave(ctx, e, false)
			return nil, false, err
		}
		if e.err == nil {
			return e, fresh, nil
		}
		h.leave(ctx, e, true)
		if !e.stopped || fresh {
			return nil, false, e.err
		}
	}
}

// await waits until the entry is loaded and, if it was loaded to be aborted, for that, unless the abort waits for this
// delivery.
func (e *entry) await(ctx context.Context) error {
	select {
	case <-e.loaded:
	default:
		mayWait(ctx)
	}
	select {
	case <-e.loaded:
	case <-priority.Raised(ctx):
		e.abort.send() // whoever loads it need not wait
		select {
		case <-e.loaded:
		case <-ctx.Done():
			return ctx.Err()
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	if isAbortive(ctx) || !e.abort.only {
		return nil
	}
	mayWait(ctx)
	select {
	case <-e.abort.stored:
	case <-priority.Raised(ctx): // it is stored before the abort
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// attach returns the entry of a session with one more user. The caller must load a fresh one. A session at rest for
// which there is no room is loaded again, as it must not be in memory while it waits.
func (h *Host) attach(session string) (e *entry, fresh bool) {
	var closing []*entry
	defer func() { h.closeAll(closing) }()
	h.mu.Lock()
	defer h.mu.Unlock()
	e = h.entries[session]
	if e != nil && e.users == 0 {
		h.rest = slices.DeleteFunc(h.rest, func(other *entry) bool { return other == e })
		if got, ok := h.rooms.try(e.bytes); ok {
			closing = h.enter(e, got)
		} else {
			closing = []*entry{e}
			delete(h.entries, session)
		}
	}
	if e == nil || h.entries[session] != e {
		known := h.needs.take(session)
		if e != nil {
			known = max(known, e.bytes)
		}
		fresh = true
		e = &entry{session: session, loaded: make(chan struct{}), bytes: known, abort: newAbort()}
		h.entries[session] = e
	}
	e.users++
	return e, fresh
}

// seq returns the sequence of the session's state.
func (e *entry) seq() (n uint64) {
	e.driver.View(func(st *loop.State) { n = st.Seq })
	return n
}

// empty reports whether an entry was loaded, without any event.
func (e *entry) empty() bool {
	select {
	case <-e.loaded:
		return e.err == nil && e.seq() == 0
	default:
		return false
	}
}

// release releases an entry after a delivery that ended with err. The session stays loaded unless it is lost, because
// its state may then be ahead of the log.
func (h *Host) release(ctx context.Context, e *entry, err error) {
	broken := driver.Lost(err) || errors.Is(err, schemas.ErrLater)
	defer func() { h.leave(ctx, e, h.weigh(e) || broken) }()
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

// leave removes one user, whose context ctx is. The last user closes a broken entry, and adds any other to the entries
// at rest.
func (h *Host) leave(ctx context.Context, e *entry, broken bool) {
	if isAbortive(ctx) || priority.IsRaised(ctx) {
		e.abort.store() // or it is not, and will be delivered again
	}
	h.mu.Lock()
	e.users--
	e.broken = e.broken || broken
	if e.broken && h.entries[e.session] == e {
		delete(h.entries, e.session)
	}
	var closing []*entry
	if e.users == 0 {
		h.working -= e.room.bytes
		e.room.free()
	}
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
	h.closeAll(closing)
}

func (h *Host) closeAll(entries []*entry) {
	for _, e := range entries {
		h.close(e)
	}
}

// close closes the log of an entry without users and has [Host.Close] wait for the background work of its driver.
func (h *Host) close(e *entry) {
	if e.log != nil {
		e.log.Close()
	}
	if e.driver != nil {
		h.closing.Go(func() { _ = e.driver.Wait(context.Background()) })
	}
}

// storeDecided stores what the driver has appended before a message is nak'd because of cause, so that the process that
// gets the message next finds all of it. It returns an error if that fails. It logs the loss of a session once, however
// many deliveries find it.
func (h *Host) storeDecided(ctx context.Context, e *entry, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
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

// firstLoss reports whether the loss of an entry was not logged before, and marks it as logged.
func (h *Host) firstLoss(e *entry) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first, e.logged = !e.logged, true
	return first
}

// evict removes entries at rest that are too many, too large together or too old. The caller holds the lock and closes
// them.
func (h *Host) evict() (closing []*entry) {
	n, size := max(len(h.rest)-h.o.CacheSize, 0), h.working
	for i, e := range slices.Backward(h.rest) {
		if size += e.bytes; size > h.o.CacheBytes {
			n = max(n, i+1)
			break
		}
	}
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

// save writes a snapshot if one is due: at a distance proportional to the context, and so to what is written. A session
// works without snapshots.
func (h *Host) save(ctx context.Context, e *entry) {
	var raw []byte
	var seq uint64
	var err error
	e.driver.View(func(st *loop.State) {
		seq = st.Seq
		if seq-e.saved >= max(h.o.SnapshotEvery, uint64(len(st.Messages))) {
			raw, err = schemas.Marshal(st)
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

// Loaded returns how many sessions the host has in memory.
func (h *Host) Loaded() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.entries)
}
