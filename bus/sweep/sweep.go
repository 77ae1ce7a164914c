package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/natsio"
)

const (
	defaultEvery = 3 * time.Second
	// streamTimeout bounds the work on one stream in one round. The next round goes on where it ended.
	streamTimeout = 30 * time.Second
	// perRequest is how many messages are asked for, and removed, before the state of the stream is asked for again.
	perRequest = 16 << 10
)

// Options configures a [Sweeper].
type Options struct {
	// Turn reports whether this process is to sweep; nil is always. Two that sweep at once do no harm.
	Turn func() bool
	// Every is the time between two rounds; 0 is three seconds.
	Every  time.Duration
	Logger *slog.Logger // nil discards
}

// Sweeper removes what nobody has written on purpose. It needs a runner's permissions.
type Sweeper struct {
	conn    *bus.Conn
	o       Options
	streams []*swept
}

// swept is a stream that is swept.
type swept struct {
	name string
	// meant reports whether somebody has written a message on purpose.
	meant func(natsio.Stored) bool
	// bucket says that the stream denies the deletion of single messages; what it has is put in order as a whole.
	bucket bool

	next    uint64 // the first message that has not been looked at
	garbage int64  // bytes, found in a bucket and still there
}

// New returns a Sweeper on c, which stays the caller's and has to outlive it. It does nothing before [Sweeper.Run].
func New(c *bus.Conn, o Options) *Sweeper {
	o.Every = cmp.Or(o.Every, defaultEvery)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	s := &Sweeper{conn: c, o: o}
	s.streams = s.rules()
	return s
}

// Run sweeps from time to time until ctx ends. What fails is logged and tried again in the next round.
func (s *Sweeper) Run(ctx context.Context) {
	for natsio.Wait(ctx, s.o.Every) {
		if s.o.Turn != nil && !s.o.Turn() {
			continue
		}
		for _, stream := range s.streams {
			if err := s.sweep(ctx, stream); err != nil && ctx.Err() == nil {
				s.o.Logger.Warn("stream not swept, trying again", "stream", stream.name, "from", stream.next, "err", err)
			}
		}
	}
}

// sweep looks at what a stream has got since the last time.
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
	if w.next > state.LastSeq+1 { // it is another stream than before
		w.next, w.garbage = 0, 0
	}
	removed := 0
	for w.next = max(w.next, state.FirstSeq); w.next <= state.LastSeq; {
		var found []uint64
		seen := false
		to := min(state.LastSeq, w.next+perRequest)
		w.next, err = natsio.Scan(ctx, js, w.name, w.next, to, func(m natsio.Stored) error {
			seen = true
			if !w.meant(m) {
				found = append(found, m.Sequence)
				w.garbage += storedSize(m)
			}
			return nil
		})
		if !w.bucket && err == nil {
			w.garbage = 0
			err = s.remove(ctx, w, found)
		}
		if err != nil {
			return err
		}
		removed += len(found)
		if !seen { // what was there at the end has gone
			break
		}
	}
	if w.bucket {
		return s.tidy(ctx, w)
	}
	if removed > 0 {
		s.o.Logger.Warn("messages that nobody has written on purpose taken out", "stream", w.name, "messages", removed)
	}
	return nil
}
