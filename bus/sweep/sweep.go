package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/natsio"
)

const (
	defaultEvery = 3 * time.Second
	// streamTimeout bounds the work on one stream in one round. The next round continues where it ended.
	streamTimeout = 30 * time.Second
	// perRequest is how many messages are read before those among them that are stray are removed.
	perRequest = 16 << 10
	// mistakeTime is how long a message that may be a failed attempt to call a tool is left for a worker to answer, if
	// there are no more than maxMistakes of them.
	mistakeTime = 30 * time.Second
	maxMistakes = 4096
)

// Options configures a [Sweeper].
type Options struct {
	// Turn reports whether this process should sweep; nil means always. Two processes that sweep at once do no harm.
	Turn func() bool
	// Every is the time between two rounds; 0 is three seconds.
	Every  time.Duration
	Logger *slog.Logger // nil discards
}

// Sweeper removes stray messages, and sets timers again that the server did not fire. It needs a runner's permissions.
type Sweeper struct {
	conn    *bus.Conn
	o       Options
	streams []*swept
	// overdueAfter is how late a timer may be before it is set again.
	overdueAfter time.Duration
}

// swept is a stream that is swept.
type swept struct {
	name string
	// meant reports whether a client has written a message on purpose.
	meant func(natsio.Stored) bool
	// mistake reports whether a stray message is left to the stream's readers for a while; nil means never.
	mistake func(natsio.Stored) bool
	// bucket is true if the stream denies the deletion of single messages, so that it is tidied as a whole.
	bucket bool

	next    uint64 // sequence of the first message that has not been checked
	garbage int64  // bytes of stray messages in a bucket
	left    []left // mistakes, oldest first
}

// left is a stray message that is left to the readers of its stream.
type left struct {
	seq   uint64
	since time.Time
}

// due returns the mistakes whose time is over.
func (w *swept) due(now time.Time) (seqs []uint64) {
	for len(w.left) > 0 && now.Sub(w.left[0].since) >= mistakeTime {
		seqs = append(seqs, w.left[0].seq)
		w.left = w.left[1:]
	}
	return seqs
}

// leaves reports whether a stray message is left to the readers of its stream.
func (w *swept) leaves(m natsio.Stored, now time.Time) bool {
	if w.mistake == nil || len(w.left) >= maxMistakes || !w.mistake(m) {
		return false
	}
	w.left = append(w.left, left{m.Sequence, now})
	return true
}

// again has the next round check the messages from seq on again.
func (w *swept) again(seq uint64) {
	w.next = min(w.next, seq)
	w.left = slices.DeleteFunc(w.left, func(l left) bool { return l.seq >= w.next })
}

// New returns a Sweeper on c, which the caller keeps open while it uses the Sweeper. It does nothing before
// [Sweeper.Run].
func New(c *bus.Conn, o Options) *Sweeper {
	o.Every = cmp.Or(o.Every, defaultEvery)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	s := &Sweeper{conn: c, o: o, overdueAfter: overdueAfter}
	s.streams = s.rules()
	return s
}

// Run sweeps periodically until ctx ends. It logs failures and tries again in the next round.
func (s *Sweeper) Run(ctx context.Context) {
	for round := 0; natsio.Wait(ctx, s.o.Every); round++ {
		if s.o.Turn != nil && !s.o.Turn() {
			continue
		}
		if round%overdueEvery == 0 {
			if err := s.fireOverdue(ctx); err != nil && ctx.Err() == nil {
				s.o.Logger.Warn("no search for timers that are overdue, trying again", "err", err)
			}
		}
		for _, stream := range s.streams {
			if err := s.sweep(ctx, stream); err != nil && ctx.Err() == nil {
				s.o.Logger.Warn("stream not swept, trying again", "stream", stream.name, "from", stream.next, "err", err)
			}
		}
	}
}

// sweep checks the messages that a stream has received since the last time.
func (s *Sweeper) sweep(ctx context.Context, w *swept) error {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	js := s.conn.JetStream()
	stream, err := js.Stream(ctx, w.name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	state := stream.CachedInfo().State
	if w.next > state.LastSeq+1 { // the stream was deleted and created again
		w.next, w.garbage, w.left = 0, 0, nil
	}
	w.next = max(w.next, state.FirstSeq)
	if err := s.check(ctx, w, state.LastSeq); err != nil {
		return err
	}
	if w.bucket {
		return s.tidy(ctx, w)
	}
	return nil
}

// check checks the messages up to the sequence last, and removes those that are stray. One that it cannot remove does
// not keep it from the others; the next round begins with that one.
func (s *Sweeper) check(ctx context.Context, w *swept, last uint64) (err error) {
	removed, failed := 0, uint64(math.MaxUint64)
	defer func() {
		w.again(failed)
		if removed > 0 {
			s.o.Logger.Warn("stray messages removed", "stream", w.name, "messages", removed)
		}
	}()
	stray := w.due(time.Now())
	for {
		n, first, failure := s.remove(ctx, w.name, stray)
		removed, failed, err = removed+n, min(failed, first), cmp.Or(err, failure)
		if w.next > last || ctx.Err() != nil {
			return err
		}
		seen := false
		stray = stray[:0]
		var unread error
		w.next, unread = natsio.Scan(ctx, s.conn.JetStream(), w.name, w.next, min(last, w.next+perRequest),
			func(m natsio.Stored) error {
				seen = true
				switch {
				case w.meant(m), w.leaves(m, time.Now()):
				case w.bucket:
					w.garbage += storedSize(m)
				default:
					stray = append(stray, m.Sequence)
				}
				return nil
			})
		switch {
		case unread != nil && len(stray) > 0:
			failed = min(failed, stray[0])
			fallthrough
		case unread != nil:
			return cmp.Or(err, unread)
		case !seen: // the last messages were deleted in the meantime
			return err
		}
	}
}
