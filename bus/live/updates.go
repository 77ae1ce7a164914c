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

// Options configures [New].
type Options struct {
	// Interval is the shortest time between two pieces of one event; 0 is the default of 25 ms, anything below 0 sends
	// every delta as it comes.
	Interval time.Duration
	// MaxBuffered is how many bytes of deltas are buffered for one event before they are sent early, default 64 KiB.
	MaxBuffered int
	// Logger records updates that could not be sent, once a minute at most, and once that some are larger than the
	// server takes; nil discards.
	Logger *slog.Logger
}

const (
	defaultUpdateInterval = 25 * time.Millisecond
	defaultMaxBuffered    = 64 << 10
	forgetAfter           = time.Hour // an event that nobody settled
	sweepAt               = 1024      // events known before any is looked at
)

// Updates publishes the live deltas of sessions, the first of an event at once, then joined to at most one piece per
// Interval. Neighbouring deltas of one block become one, so an event's updates come to about the size of what it
// streams.
//
// It numbers the updates of each event from 1, whatever N the caller gave. Nothing is acknowledged: an update that
// cannot be sent is lost, and the log has the whole content anyway. They go out on the connection of the log
// ([bus.Conn.Events]), so none is behind the event that ends what it belongs to. A timer runs only while something is
// buffered. All methods may be called concurrently; calls for one event are in the order of their locks.
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

// New returns a publisher of updates on c, which stays the caller's and has to outlive it.
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

// Update sends an update, or buffers it to join it with the next ones. It never blocks on the network. Its data
// belong to Updates from then on.
func (u *Updates) Update(_ context.Context, update schemas.Update) {
	u.of(updateKey{update.Session, update.Event}).add(update)
}

// Flush sends what is buffered of an event and forgets it. An update that comes for it later begins at number 1
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

// of returns what is known of an event.
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

// sweep forgets events whose driver went away without settling them.
func (u *Updates) sweep() {
	for key, e := range u.events {
		if e.idleSince(time.Now().Add(-forgetAfter)) {
			delete(u.events, key)
		}
	}
	u.sweepAt = max(sweepAt, 2*len(u.events))
}

// publish sends one update as a CloudEvent in binary mode.
func (u *Updates) publish(update schemas.Update) {
	header, payload, err := schemas.EncodeUpdate(update)
	if err == nil {
		err = u.nc.PublishMsg(&nats.Msg{Subject: u.subjects.LiveUpdate(update.Session), Header: header, Data: payload})
	}
	switch {
	case err == nil || errors.Is(err, nats.ErrConnectionClosed):
		return
	case errors.Is(err, nats.ErrMaxPayload):
		u.oversized.Do(func() {
			u.log.Warn("updates larger than the server takes are not sent; the log has what they tell", "update", update.ID(),
				"bytes", len(payload), "limit", u.nc.MaxPayload())
		})
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
