package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// Options configure [New].
type Options struct {
	// Interval is the shortest time between two updates of an event. 0 means the default of 25 ms; a negative value
	// sends every delta at once.
	Interval time.Duration
	// MaxBuffered is how many bytes of deltas are buffered for an event before they are sent early, default 64 KiB.
	MaxBuffered int
	// Logger logs updates that could not be sent, once a minute at most, and once that an update is larger than the
	// server accepts; nil discards.
	Logger *slog.Logger
}

const (
	defaultUpdateInterval = 25 * time.Millisecond
	defaultMaxBuffered    = 64 << 10
	forgetAfter           = time.Hour // without an update or Flush of an event
	sweepAt               = 1024      // events that are known before a sweep
)

// Updates publishes the live deltas of sessions: the first of an event at once, then joined to at most one message per
// Interval. Adjacent deltas of a block become one, so the updates of an event have about the size of its content.
//
// It numbers the updates of each event from 1, whatever N the caller has set. Updates are not acknowledged: one that
// cannot be sent is lost, and the log has the whole content anyway. They are sent on the connection of the log
// ([bus.Conn.Events]), so none of them arrives after the event that completes the content. Its methods may be called
// concurrently; updates of an event are sent in the order in which the calls acquire its lock.
type Updates struct {
	nc          *nats.Conn
	subjects    schemas.Subjects
	interval    time.Duration
	maxBuffered int
	log         *slog.Logger

	mu      sync.Mutex
	events  map[updateKey]*eventUpdates
	sweepAt int
	warned  time.Time

	oversized sync.Once
}

type updateKey struct {
	session string
	event   uint64
}

// New returns a publisher of updates on c, which the caller keeps and which has to outlive it.
func New(c *bus.Conn, o Options) *Updates {
	u := &Updates{nc: c.Events().Conn(), subjects: c.Subjects(), interval: o.Interval,
		maxBuffered: cmp.Or(o.MaxBuffered, defaultMaxBuffered),
		log:         o.Logger, events: map[updateKey]*eventUpdates{}, sweepAt: sweepAt}
	if u.interval == 0 {
		u.interval = defaultUpdateInterval
	}
	if u.log == nil {
		u.log = slog.New(slog.DiscardHandler)
	}
	return u
}

// Update sends an update, or buffers it to join it with the next ones. It does not wait for the network. The caller
// must not use the update's data afterwards.
func (u *Updates) Update(_ context.Context, update schemas.Update) {
	u.of(updateKey{update.Session, update.Event}).add(update)
}

// Flush sends the buffered updates of an event and forgets the event. A later update of it would be numbered from 1
// again.
func (u *Updates) Flush(_ context.Context, session string, event uint64) {
	key := updateKey{session, event}
	u.mu.Lock()
	e := u.events[key]
	delete(u.events, key)
	u.mu.Unlock()
	if e != nil {
		e.settle()
	}
}

// of returns the state of an event, and creates it if there is none.
func (u *Updates) of(key updateKey) *eventUpdates {
	u.mu.Lock()
	defer u.mu.Unlock()
	e := u.events[key]
	if e == nil {
		if len(u.events) >= u.sweepAt {
			u.sweep()
		}
		e = &eventUpdates{updates: u}
		u.events[key] = e
	}
	return e
}

// sweep forgets events that were not flushed because their driver was lost.
func (u *Updates) sweep() {
	for key, e := range u.events {
		if e.idleSince(time.Now().Add(-forgetAfter)) {
			delete(u.events, key)
		}
	}
	u.sweepAt = max(sweepAt, 2*len(u.events))
}

// publish sends one update as a CloudEvent in binary mode. size is the bytes of its deltas and contents: if they alone
// are too many for a message, the update is not even encoded, which would take several times as much memory.
func (u *Updates) publish(update schemas.Update, size int) {
	if int64(size) > u.nc.MaxPayload() {
		u.tooLarge(update, size)
		return
	}
	header, payload, err := schemas.EncodeUpdate(update)
	if err == nil {
		err = u.nc.PublishMsg(&nats.Msg{Subject: u.subjects.LiveUpdate(update.Session), Header: header, Data: payload})
	}
	switch {
	case err == nil || errors.Is(err, nats.ErrConnectionClosed):
		return
	case errors.Is(err, nats.ErrMaxPayload):
		u.tooLarge(update, len(payload))
		return
	}
	u.mu.Lock()
	due := time.Since(u.warned) > time.Minute
	if due {
		u.warned = time.Now()
	}
	u.mu.Unlock()
	if due {
		u.log.Warn("update not sent", "update", update.ID(), "err", fmt.Errorf("live: publish update: %w", err))
	}
}

func (u *Updates) tooLarge(update schemas.Update, size int) {
	u.oversized.Do(func() {
		u.log.Warn("update not sent, it is larger than the server accepts; the log has its content", "update", update.ID(),
			"bytes", size, "limit", u.nc.MaxPayload())
	})
}
