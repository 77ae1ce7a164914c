package eventstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// liveQueue is how many republished messages may wait for a follower before they are dropped and read again.
const liveQueue = 1024

// Follow yields the events of a session from sequence from (1 is the first) without a gap or a repetition: first what
// is stored, then what is stored from now on, as the server republishes it. It survives lost connections and ends when
// ctx does, without an error, or else with an error as the last thing yielded. A follower that is slow costs the server
// nothing and misses nothing.
func (s *Store) Follow(ctx context.Context, session string, from uint64) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		if err := schemas.CheckSession(session); err != nil {
			yield(schemas.Event{}, fmt.Errorf("eventstore: follow: %w", err))
			return
		}
		f := &follower{s: s, session: session, from: from, yield: yield}
		err := f.run(ctx)
		if err != nil && !errors.Is(err, errStop) && ctx.Err() == nil {
			yield(schemas.Event{}, fmt.Errorf("eventstore: follow session %s after seq %d: %w", session, f.last.seq, err))
		}
	}
}

// follower merges a log and its live events by sequence.
type follower struct {
	s       *Store
	session string
	from    uint64
	yield   func(schemas.Event, error) bool

	last    position // last message seen, by its last event
	live    chan *nats.Msg
	sub     *nats.Subscription
	dropped int // live events lost so far because the queue was full
}

func (f *follower) run(ctx context.Context) error {
	f.live = make(chan *nats.Msg, liveQueue)
	// First subscribe, then read: what is stored in between comes twice and is deduplicated by its sequence.
	sub, err := f.s.nc.ChanSubscribe(f.s.o.Subjects.LiveEvent(f.session), f.live)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	f.sub = sub
	for {
		changed := f.s.watch.changed() // before reading: a change while reading reads again
		if err := f.catchUp(ctx); err != nil {
			return err
		}
		if err := f.follow(ctx, changed); err != nil {
			return err
		}
	}
}

// catchUp yields what is stored and was not seen.
func (f *follower) catchUp(ctx context.Context) error {
	head, err := f.s.head(ctx, f.session)
	if err != nil {
		return err
	}
	for rec, err := range f.s.between(ctx, f.session, f.last.stream, head) {
		if err != nil {
			return err
		}
		if rec.foreign(f.session) {
			f.last.stream = rec.stream
			continue
		}
		if err := f.take(ctx, rec); err != nil {
			return err
		}
	}
	return nil
}

// follow yields live events. It returns nil when there may be some that it has not seen.
func (f *follower) follow(ctx context.Context, changed <-chan struct{}) error {
	check := time.NewTimer(f.s.o.FollowCheck)
	defer check.Stop()
	for {
		select {
		case m := <-f.live:
			if again, err := f.takeLive(ctx, m); again || err != nil {
				return err
			}
			check.Reset(f.s.o.FollowCheck)
			continue
		default:
		}
		// The queue is empty, so whatever was dropped was dropped before now.
		if n, _ := f.sub.Dropped(); n != f.dropped {
			f.dropped = n
			return nil
		}
		select {
		case m := <-f.live:
			if again, err := f.takeLive(ctx, m); again || err != nil {
				return err
			}
			check.Reset(f.s.o.FollowCheck)
		case <-changed:
			return nil
		case <-check.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// takeLive takes a republished message. gap says that others are missing before it.
func (f *follower) takeLive(ctx context.Context, m *nats.Msg) (gap bool, err error) {
	rec, err := recordOf(m)
	if err != nil || rec.stream <= f.last.stream || rec.foreign(f.session) {
		return false, nil // not the server's, or seen already, or none of the log's
	}
	if stream, err := natsio.Added(m.Header, jetstream.StreamHeader), f.fits(rec); stream != schemas.StreamEvents ||
		err != nil {
		return true, nil // whether something is missing, or another client has sent it, the log itself shows
	}
	return false, f.take(ctx, rec)
}

// fits returns nil if a record begins with the next event and can be taken apart.
func (f *follower) fits(rec record) error {
	first, _, err := rec.span(f.session)
	if err == nil && first != f.last.seq+1 {
		err = fmt.Errorf("%w: event %d follows event %d", ErrDamaged, first, f.last.seq)
	}
	if err == nil {
		_, err = rec.split(f.session)
	}
	return err
}

// take yields the events of the next record, but for those before from.
func (f *follower) take(ctx context.Context, rec record) (err error) {
	f.last.seq, err = rec.unpack(ctx, f.session, f.last.seq, f.from, f.s.fetchBlob, f.yield)
	f.last.stream = rec.stream
	return err
}
