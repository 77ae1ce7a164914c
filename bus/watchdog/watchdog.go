// Package watchdog finds sessions whose command, tool call or result was lost after it was acknowledged, and has them
// checked (decision 162). A session at work is silent for a reason: a message in a queue will wake it. If it is silent
// and no queue has a message for it, the watchdog sends it the timer [schemas.TimerCheck]. Then its runner takes the
// next step, and answers the calls and sub-agents that nobody will answer.
package watchdog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const (
	defaultEvery   = 5 * time.Second
	defaultSilent  = 30 * time.Second
	defaultLongest = time.Hour
	// maxChecked limits the sessions that one round looks for in the queues: those that are due the longest.
	maxChecked = 500
	// roundTimeout bounds one round.
	roundTimeout = 30 * time.Second
)

// Session is a session at work, with the stream sequence of the newest message of its log. That the sequence is the
// same means that the session is silent.
type Session struct {
	Name string
	Last uint64
}

// Options configures a [Watchdog]. Sessions is required.
type Options struct {
	// Sessions returns the sessions that work, have queued input or wait for sub-agents. Those that wait for an approval
	// may be left out.
	Sessions func() []Session
	// Turn reports whether this process should look; nil means always. Two processes that look at once do no harm.
	Turn func() bool
	// Every is the time between two rounds, default 5 s. Silent is how long a session is silent before it is looked for in
	// the queues, default 30 s. That time doubles for a session that remains silent, up to Longest, default one hour.
	Every, Silent, Longest time.Duration
	Logger                 *slog.Logger // nil discards
}

// Watchdog looks for lost messages. It needs a runner's permissions.
type Watchdog struct {
	conn    *bus.Conn
	timers  *bus.Timers
	o       Options
	watched map[string]*watched
}

// watched is a session that was silent since the round that has noted it.
type watched struct {
	session string
	last    uint64
	wait    time.Duration
	due     time.Time // when it is looked for in the queues
}

// New returns a Watchdog on c, which the caller keeps open while it uses the Watchdog. It does nothing before
// [Watchdog.Run].
func New(c *bus.Conn, o Options) *Watchdog {
	o.Every, o.Silent = cmp.Or(o.Every, defaultEvery), cmp.Or(o.Silent, defaultSilent)
	o.Longest = cmp.Or(o.Longest, defaultLongest)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Watchdog{conn: c, timers: bus.NewTimers(c), o: o}
}

// Run looks periodically until ctx ends. It logs failures and tries again in the next round.
func (w *Watchdog) Run(ctx context.Context) {
	for natsio.Wait(ctx, w.o.Every) {
		if w.o.Turn != nil && !w.o.Turn() {
			w.watched = nil
			continue
		}
		if err := w.round(ctx); err != nil && ctx.Err() == nil {
			w.o.Logger.Warn("silent sessions not checked, trying again", "err", err)
		}
	}
}

func (w *Watchdog) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	now, before := time.Now(), w.watched
	w.watched = map[string]*watched{}
	var due []*watched
	for _, s := range w.o.Sessions() {
		x := before[s.Name]
		if x == nil || x.last != s.Last {
			x = &watched{s.Name, s.Last, w.o.Silent, now.Add(w.o.Silent)}
		}
		if w.watched[s.Name] = x; !now.Before(x.due) {
			due = append(due, x)
		}
	}
	slices.SortFunc(due, func(a, b *watched) int { return a.due.Compare(b.due) })
	for _, x := range due[:min(len(due), maxChecked)] {
		if err := w.check(ctx, x.session); err != nil {
			return err
		}
		x.wait = min(2*x.wait, w.o.Longest)
		x.due = now.Add(x.wait)
	}
	return nil
}

// check sends the timer to a session unless a queue has a message for it. A worker stores a result before it settles
// the call, so looking for calls first misses neither.
func (w *Watchdog) check(ctx context.Context, session string) error {
	calls := w.conn.Subjects().Tool("*", session, "*")
	commands := fmt.Sprintf("%s.cmd.*.%s.>", w.conn.Subjects().Prefix(), session) // in every partition
	for _, q := range []struct{ stream, filter string }{{schemas.StreamTools, calls}, {schemas.StreamCommands, commands}} {
		info, err := natsio.LeaderInfo(ctx, w.conn.JetStream(), q.stream, jetstream.WithSubjectFilter(q.filter))
		if err != nil {
			return fmt.Errorf("messages of session %s in %s: %w", session, q.stream, err)
		}
		if len(info.State.Subjects) > 0 {
			return nil
		}
	}
	w.o.Logger.Debug("session is silent and no message waits for it: it is checked", "session", session)
	return w.timers.Schedule(ctx, session, time.Now(), schemas.Timer{Name: schemas.TimerCheck})
}
