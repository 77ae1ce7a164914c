package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

const (
	// How often a quiet log is asked whether it has more: at first soon, because a subscription may reach a cluster's
	// other servers later than the one that it is made with.
	firstCheck = 250 * time.Millisecond
	lastCheck  = 5 * time.Second
)

// Watch follows a session from the event with sequence from, 1 for its first: what is stored, then what happens, until
// ctx ends, which is the last thing yielded, as its error. A from of 0 is from now on, with the reply that is being
// streamed. The session need not have begun. See the package's comment for what is promised.
func (s *Session) Watch(ctx context.Context, from uint64) iter.Seq2[Item, error] {
	return s.follow(ctx, &watcher{from: from, updates: true})
}

// follow yields what w yields, then its error.
func (s *Session) follow(ctx context.Context, w *watcher) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		w := *w // each loop begins anew
		w.c, w.session, w.open = s.c, s.id, map[uint64]*streamed{}
		w.yield = func(i Item) bool { return yield(i, nil) }
		if w.from == 0 {
			w.from, w.fromNow = math.MaxUint64, true
		}
		err := schemas.CheckSession(s.id)
		switch {
		case err != nil:
		case w.stored:
			if err = w.catchUp(ctx); err == nil {
				return
			}
		default:
			err = w.run(ctx)
		}
		switch {
		case errors.Is(err, errStop):
		case ctx.Err() != nil:
			yield(Item{}, ctx.Err())
		default:
			yield(Item{}, fmt.Errorf("client: follow session %s after event %d: %w", s.id, w.at.seq, err))
		}
	}
}

// watcher merges a session's log with its live feed. It is of one goroutine.
type watcher struct {
	c       *Client
	session string
	updates bool   // besides events
	stored  bool   // what there is now, and not what comes
	from    uint64 // the first event that is yielded
	fromNow bool   // from is to be the one after the log
	yield   func(Item) bool

	at       place                // last message seen whole, but for seq, which may be inside of the next one
	deltas   uint64               // read so far of the stream of updates
	open     map[uint64]*streamed // what is being streamed, by the sequence of its event
	message  uint64               // the message among it
	caughtUp time.Time
}

func (w *watcher) run(ctx context.Context) error {
	subject := w.c.subjects.LiveEvent(w.session)
	if w.updates {
		subject = w.c.subjects.Prefix() + ".live." + w.session + ".>"
	}
	// First subscribe, then read: what is stored in between comes twice, and its sequence tells it apart.
	t, err := w.c.tap(ctx, subject)
	if err != nil {
		return err
	}
	defer t.close()
	for {
		if err := w.catchUp(ctx); err != nil {
			return err
		}
		if w.fromNow {
			w.from, w.fromNow = w.at.seq+1, false
			if err := w.catchUp(ctx); err != nil { // for the updates of what is open
				return err
			}
		}
		if err := w.listen(ctx, t); err != nil {
			return err
		}
	}
}

// catchUp yields what is stored and was not seen. It keeps trying while the server cannot be reached.
func (w *watcher) catchUp(ctx context.Context) error {
	var refused time.Time // since when the server, which can be reached, says that it has no JetStream
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		before := w.at
		err := w.readLog(ctx)
		if err == nil && w.updates && !w.fromNow && len(w.open) > 0 {
			err = w.readUpdates(ctx)
		}
		w.caughtUp = time.Now()
		switch {
		case err == nil || !passing(err) || ctx.Err() != nil:
			return err
		case !errors.Is(err, jetstream.ErrJetStreamNotEnabled):
			refused = time.Time{}
		case refused.IsZero():
			refused = w.caughtUp
		case w.caughtUp.Sub(refused) > w.c.o.RequestTimeout:
			return err
		}
		if w.at != before {
			pause = minPause
		} else if pause == maxPause {
			w.c.o.Logger.Warn("a session cannot be read, trying again", "session", w.session, "seq", w.at.seq, "err", err)
		}
		wait(ctx, pause)
	}
}

func (w *watcher) readLog(ctx context.Context) error {
	subject := w.c.subjects.Event(w.session)
	for m, err := range w.c.stored(ctx, schemas.StreamEvents, subject, after(w.at.stream)) {
		if err != nil {
			return err
		}
		if !schemas.IsLog(w.session, m.header, m.data) {
			w.at.stream = m.seq // somebody had a server answer there: no part of the log
			continue
		}
		first, last, err := schemas.LogSpan(w.session, m.header)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		case first > w.at.seq+1 || last <= w.at.seq:
			return fmt.Errorf("%w: events %d to %d follow event %d", ErrDamaged, first, last, w.at.seq)
		}
		if err := w.commit(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// listen yields what comes live. It returns nil when there may be something that has not come.
func (w *watcher) listen(ctx context.Context, t *tap) error {
	interval := firstCheck
	check := time.NewTimer(interval)
	defer check.Stop()
	for {
		if missed, err := t.missed(); missed || err != nil {
			return err
		}
		select {
		case m := <-t.live:
			if missed, err := w.liveMessage(ctx, m); missed || err != nil {
				return err
			}
		case status := <-t.status:
			if status == nats.CLOSED {
				return nats.ErrConnectionClosed
			}
			w.deltas = 0 // a stream in memory begins anew with its server
			return nil
		case <-check.C:
			one, cancel := context.WithTimeout(ctx, attemptTimeout)
			head, err := w.c.head(one, w.session)
			cancel()
			if err != nil && !passing(err) || ctx.Err() != nil {
				return errors.Join(err, ctx.Err())
			}
			if head.stream > w.at.stream {
				return nil
			}
			interval = min(2*interval, lastCheck)
			check.Reset(interval)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// liveMessage takes a live message. missed says that others have to be read first.
func (w *watcher) liveMessage(ctx context.Context, m *nats.Msg) (missed bool, err error) {
	session, update, err := w.c.subjects.ParseLive(m.Subject)
	if err != nil || session != w.session {
		return false, nil // another's business
	}
	if update {
		return w.liveUpdate(m)
	}
	rec, ok := republished(m)
	if !ok || rec.seq <= w.at.stream || !schemas.IsLog(w.session, m.Header, m.Data) {
		return false, nil
	}
	first, last, err := schemas.LogSpan(w.session, m.Header)
	if err != nil || first > w.at.seq+1 || last <= w.at.seq || rec.subject != w.c.subjects.Event(w.session) {
		return true, nil // the log itself says what is right
	}
	err = w.commit(ctx, rec)
	if err != nil && !errors.Is(err, errStop) {
		return true, nil // its data are elsewhere and could not be had, or another client has sent it
	}
	return false, err
}

// commit yields the events of a message of the log, but for those seen already and those before from.
func (w *watcher) commit(ctx context.Context, m storedMsg) error {
	events, err := schemas.SplitLog(w.session, m.header, m.data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for _, s := range events {
		if s.Seq <= w.at.seq {
			continue
		}
		if err := w.event(ctx, s); err != nil {
			return err
		}
		w.at.seq = s.Seq
	}
	w.at.stream = m.seq
	return nil
}

func (w *watcher) event(ctx context.Context, s schemas.StoredEvent) error {
	if s.Seq < w.from {
		w.passOver(s)
		return nil
	}
	e, err := s.Decode(func(ref string) ([]byte, error) { return w.c.blob(ctx, ref) })
	if err != nil {
		return err
	}
	w.track(e.Seq, e.Type(), e.Data)
	if !w.yield(Item{Event: &e}) {
		return errStop
	}
	return nil
}
