package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Watch follows a session. It yields the stored events beginning with sequence from (1 is the first), then events and
// updates as they happen. It ends when ctx ends, yielding the context's error last. If from is 0, Watch yields only
// what happens from now on, including the updates so far of a reply that is being streamed. The session need not
// exist yet. The package comment states what is guaranteed.
func (s *Session) Watch(ctx context.Context, from uint64) iter.Seq2[Item, error] {
	return s.follow(ctx, &watcher{from: from, updates: true})
}

// follow yields the items of a copy of w, then w's error.
func (s *Session) follow(ctx context.Context, w *watcher) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		w := *w // each loop has its own state
		w.c, w.session, w.room, w.open = s.c, s.id, s.room, map[uint64]*streamed{}
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

// watcher merges a session's log with its live feed. It is used by one goroutine.
type watcher struct {
	c       *Client
	session string
	room    Room   // for payloads; may be nil
	updates bool   // yield updates besides events
	stored  bool   // end after what is stored now
	from    uint64 // sequence of the first event to yield
	fromNow bool   // from is still to be set to the event after the end of the log
	yield   func(Item) bool

	at       position             // last message processed completely; seq may be ahead, inside the next message
	part     uint64               // stream sequence of the message that at.seq is from
	deltas   uint64               // sequence of the last message read from the stream of updates
	open     map[uint64]*streamed // messages and tool calls in progress, by the sequence of their start event
	message  uint64               // key in open of the message in progress
	caughtUp time.Time
}

func (w *watcher) run(ctx context.Context) error {
	subject := w.c.subjects.LiveEvent(w.session)
	if w.updates {
		subject = w.c.subjects.Prefix() + ".live." + w.session + ".>"
	}
	// Subscribe before reading, so that nothing is missed in between. Duplicates are recognized by their sequence.
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
			if err := w.catchUp(ctx); err != nil { // reads the updates of messages in progress
				return err
			}
		}
		if err := w.listen(ctx, t); err != nil {
			return err
		}
	}
}

// catchUp yields what is stored and was not yielded yet. It retries while the server cannot be reached.
func (w *watcher) catchUp(ctx context.Context) error {
	log := w.c.o.Logger.With("session", w.session)
	return w.c.reread(ctx, log, func(ctx context.Context) (more bool, err error) {
		before := w.at
		err = w.readLog(ctx)
		if err == nil && w.updates && w.reached() && len(w.open) > 0 {
			err = w.readUpdates(ctx)
		}
		w.caughtUp = time.Now()
		return w.at != before, err
	})
}

// reached reports whether the log was processed up to from. Before, what is in progress may have ended for the caller,
// who knows the events before from: a replica that is behind may have answered.
func (w *watcher) reached() bool { return w.at.seq+1 >= w.from }

func (w *watcher) readLog(ctx context.Context) error {
	subject := w.c.subjects.Event(w.session)
	for m, err := range w.c.readStored(ctx, schemas.StreamEvents, subject, startAfter(w.at.stream)) {
		if err != nil {
			return err
		}
		if !schemas.IsLog(w.session, m.header, m.data) {
			w.at.stream = m.seq // a foreign message on the log's subject
			continue
		}
		first, last, err := schemas.LogSpan(w.session, m.header)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		case !w.continues(m.seq, first):
			return fmt.Errorf("%w: events %d to %d are stored after event %d", ErrDamaged, first, last, w.at.seq)
		}
		if err := w.commit(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// continues reports whether a message of the log, whose first event has sequence first, continues what was yielded. A
// gap before from takes nothing from the caller. A message with events that were yielded is read again if it was
// interrupted; any other is of another log: the session was deleted and has begun again.
func (w *watcher) continues(stream, first uint64) bool {
	return stream == w.part || first > w.at.seq && first <= max(w.at.seq+1, w.from)
}

// commit yields the events of a commit, except those already yielded and those before from.
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
		w.at.seq, w.part = s.Seq, m.seq
	}
	w.at.stream = m.seq
	return nil
}

func (w *watcher) event(ctx context.Context, s schemas.StoredEvent) error {
	if s.Seq < w.from {
		w.skip(s)
		return nil
	}
	p := payload{c: w.c, session: w.session, room: w.room}
	defer p.done()
	e, err := p.decode(ctx, s)
	if err != nil {
		return err
	}
	w.track(e.Seq, e.Type(), e.Data)
	if !w.yield(Item{Event: &e}) {
		return errStop
	}
	return nil
}
