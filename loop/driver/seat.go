package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// seat is a session the host holds.
type seat struct {
	session string
	loaded  chan struct{} // closed when driver and log are set, or err is
	driver  *Driver
	log     SessionLog
	err     error
	saved   uint64 // sequence of the newest snapshot

	users  int       // deliveries under way; the host's lock guards these
	since  time.Time // at rest since
	broken bool
	told   bool // that it is lost
}

// acquire returns the seat of a session, loading it if it is not held. fresh says that this call has loaded it.
func (h *Host) acquire(ctx context.Context, session string) (s *seat, fresh bool, err error) {
	h.mu.Lock()
	s = h.seats[session]
	if s == nil {
		fresh = true
		s = &seat{session: session, loaded: make(chan struct{})}
		h.seats[session] = s
	}
	if s.users == 0 {
		h.rest = slices.DeleteFunc(h.rest, func(other *seat) bool { return other == s })
	}
	s.users++
	h.mu.Unlock()
	if fresh {
		s.err = h.load(ctx, s)
		close(s.loaded)
	}
	select {
	case <-s.loaded:
	case <-ctx.Done():
		h.leave(s, nil)
		return nil, false, ctx.Err()
	}
	if s.err != nil {
		return nil, false, h.release(ctx, s, s.err)
	}
	return s, fresh, nil
}

// load reads the session's snapshot and the tail of its log.
func (h *Host) load(ctx context.Context, s *seat) (err error) {
	opened := h.o.Clock.Now()
	log, err := h.o.Open(ctx, s.session)
	if err != nil { // the log may be a nil pointer, which as an interface is not nil
		return fmt.Errorf("take up session %s: %w", s.session, err)
	}
	s.log = log
	state, saved, err := h.read(ctx, s.log, s.session, 0)
	if err != nil {
		return fmt.Errorf("take up session %s %w", s.session, err)
	}
	s.saved = saved
	s.driver = New(Options{
		Log: s.log, Model: h.o.Model, Tools: h.o.Tools, Live: h.o.Live, Timers: h.o.Timers, Clock: h.o.Clock,
		Hooks: h.o.Hooks, Tracer: h.o.Tracer, Logger: h.o.Logger, Source: h.o.Source, Configure: h.configure,
		OnEvent: h.o.OnEvent, Retryable: h.o.Retryable, IdleTimeout: h.o.IdleTimeout, AbortGrace: h.o.AbortGrace,
		CallsInQueue: h.o.CallsInQueue, Services: h.o.Services, InputHooks: h.inputHooks, Budgets: h.o.Budgets,
	}, state)
	s.driver.standing.look(opened)
	return nil
}

// seq is the sequence of the session's state.
func (s *seat) seq() (n uint64) {
	s.driver.View(func(st *loop.State) { n = st.Seq })
	return n
}

// release gives a seat back and returns err. After an error the session is not held any longer: what this process
// believes of it may be ahead of the log.
func (h *Host) release(ctx context.Context, s *seat, err error) error {
	if err != nil && s.driver != nil {
		s.driver.giveUp(err)
	}
	if err != nil && s.log != nil {
		h.settle(ctx, s, err)
	} else if err == nil {
		h.save(ctx, s)
	}
	h.leave(s, err)
	return err
}

// leave counts one user less. The last one closes a broken seat and puts any other on the list of those at rest.
func (h *Host) leave(s *seat, err error) {
	h.mu.Lock()
	s.users--
	s.broken = s.broken || err != nil
	if s.broken && h.seats[s.session] == s {
		delete(h.seats, s.session)
	}
	var closing []*seat
	switch {
	case s.users > 0:
	case s.broken:
		closing = []*seat{s}
	default:
		s.since = h.o.Clock.Now()
		h.rest = append(h.rest, s)
		closing = h.evict()
	}
	h.mu.Unlock()
	for _, old := range closing {
		if old.log != nil {
			old.log.Close()
		}
	}
}

// settle lets what has been decided reach the log before the session is given up because of cause, so that whoever takes
// it up next finds all of it. That the session is lost to another runner is said once, however many deliveries learn of it.
func (h *Host) settle(ctx context.Context, s *seat, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.o.FlushTimeout)
	defer cancel()
	err := s.log.Flush(ctx)
	var conflict *schemas.ConflictError
	lost := errors.As(err, &conflict) || errors.As(cause, &conflict)
	if err == nil && !lost || !h.tell(s) {
		return
	}
	if lost {
		h.o.Logger.Warn("session lost: another runner has it", "session", s.session, "seq", conflict.Seq)
	} else {
		h.o.Logger.Warn("session given up", "session", s.session, "err", err)
	}
}

// tell reports whether it is the first time that there is something to tell of a seat's loss.
func (h *Host) tell(s *seat) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first, s.told = !s.told, true
	return first
}

// evict takes sessions that are too many or have rested too long off the list. The caller holds the lock.
func (h *Host) evict() (closing []*seat) {
	n := max(len(h.rest)-h.o.CacheSize, 0)
	for n < len(h.rest) && h.o.Clock.Now().Sub(h.rest[n].since) > h.o.CacheAge {
		n++
	}
	closing = slices.Clone(h.rest[:n])
	h.rest = slices.Delete(h.rest, 0, n)
	for _, s := range closing {
		delete(h.seats, s.session)
	}
	return closing
}

// save writes a snapshot if it is due. A session goes on without one.
func (h *Host) save(ctx context.Context, s *seat) {
	var raw []byte
	var seq uint64
	var err error
	s.driver.View(func(st *loop.State) {
		seq = st.Seq
		if seq-s.saved >= max(h.o.SnapshotEvery, s.saved/4) {
			raw, err = json.Marshal(st)
			s.saved = seq
		}
	})
	if raw == nil && err == nil {
		return
	}
	if err == nil {
		if err = s.log.Flush(ctx); err == nil {
			err = s.log.SaveSnapshot(ctx, loop.FoldVersion, seq, raw)
		}
	}
	if err != nil {
		h.o.Logger.Warn("snapshot not saved", "session", s.session, "seq", seq, "err", err)
	}
}

// Held returns how many sessions the host holds, at rest or not.
func (h *Host) Held() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.seats)
}
