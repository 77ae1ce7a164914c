package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/schemas"
)

// Rule limits how long sessions are kept. Zero members are no limit.
type Rule struct {
	// MaxAge is how long a session is kept after its last activity, or after it was restored.
	MaxAge time.Duration
	// MaxBytes is the size of the logs of all sessions of the profile together, with the payloads in the object store. The
	// sessions of which nothing was stored for the longest time are deleted first.
	MaxBytes int64
}

// KeeperOptions configure a [Keeper]. ID, Deleter and Index are required.
type KeeperOptions struct {
	ID      string // of the runner
	Deleter *Deleter
	Index   *index.Index
	// Rules has the rules by profile; that of "" is for sessions of any other profile, and of none.
	Rules map[string]Rule
	// Interval is the time between two rounds of a deployment; 0 means 1 min.
	Interval time.Duration
	// PerRound is the largest number of sessions that a round deletes, and that it measures; 0 means 200.
	PerRound int
	// OnDeleted, if set, is called for each deleted session, with [ReasonAge] or [ReasonSize].
	OnDeleted func(reason string)
	// Logger logs sessions that are not deleted, and the reason; nil discards.
	Logger *slog.Logger
}

// Keeper deletes sessions by rule. Of all keepers of a deployment only the one that holds the lease works.
type Keeper struct {
	o     KeeperOptions
	now   func(ctx context.Context) (time.Time, error) // of the server
	own   func() time.Time                             // of this machine
	sizes map[string]measured                          // by session, for rules with MaxBytes
	took  time.Duration                                // by the last round
	held  struct {                                     // the lease of another keeper
		revision uint64
		since    time.Time // when this revision was first read
	}
}

type measured struct {
	stream uint64 // newest message of the log
	bytes  int64
}

// The reasons of a [Keeper].
const (
	ReasonAge  = "age"
	ReasonSize = "size"
)

// NewKeeper returns a keeper. It does nothing before [Keeper.Run].
func NewKeeper(o KeeperOptions) *Keeper {
	o.Interval, o.PerRound = cmp.Or(o.Interval, time.Minute), cmp.Or(o.PerRound, 200)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Keeper{o: o, sizes: map[string]measured{}, now: o.Deleter.serverTime, own: time.Now}
}

// Run carries out a round in each interval, while it holds the lease, until ctx ends. It returns nil.
func (k *Keeper) Run(ctx context.Context) error {
	for natsio.Wait(ctx, k.o.Interval) {
		held, err := k.lease(ctx)
		if err == nil && held {
			_, err = k.Round(ctx)
		}
		if err != nil && ctx.Err() == nil {
			k.o.Logger.Warn("old sessions not deleted", "err", err)
		}
	}
	return nil
}

// Round deletes sessions that no rule keeps, at most PerRound of them, and returns their number. It does not delete
// active sessions. A limit of the log that a deletion has left raised it sets to what it was.
func (k *Keeper) Round(ctx context.Context) (deleted int, err error) {
	defer func(begun time.Time) { k.took = time.Since(begun) }(time.Now())
	now, err := k.time(ctx)
	if err != nil {
		return 0, err
	}
	seen, err := k.mark(ctx, now)
	err = errors.Join(err, k.o.Deleter.narrow(ctx))
	view := k.o.Index.View()
	if view.Partial {
		return 0, err
	}
	victims, failed := k.victims(ctx, view.Entries, seen)
	err = errors.Join(err, failed)
	for _, v := range victims {
		if deleted >= k.o.PerRound || ctx.Err() != nil {
			break
		}
		e := v.entry
		if v.why == ReasonAge {
			maxAge := k.o.Rules[k.profile(e)].MaxAge
			young, failed := k.storedSince(ctx, e.Stream, seen.at(maxAge).Add(-maxAge))
			if failed != nil || young {
				err = errors.Join(err, failed)
				continue
			}
		}
		_, failed := k.o.Deleter.Delete(ctx, Request{Session: e.Summary.Session, At: e.Stream, Reason: "retention: " + v.why})
		switch {
		case errors.Is(failed, ErrBusy), errors.Is(failed, ErrNoSession):
			k.o.Logger.Debug("session kept", "session", e.Summary.Session, "err", failed)
		case failed != nil:
			err = errors.Join(err, failed)
		default:
			deleted++
			delete(k.sizes, e.Summary.Session)
			if k.o.OnDeleted != nil {
				k.o.OnDeleted(v.why)
			}
		}
	}
	return deleted, err
}

// profile returns the name under which the rule of a session is.
func (k *Keeper) profile(e *index.Entry) string {
	if _, ok := k.o.Rules[e.Summary.Profile]; ok {
		return e.Summary.Profile
	}
	return ""
}

// storedSince reports whether a message of a log was stored after a time, by the server's clock. The time of an event
// is that of the runner that has written it, whose clock may be wrong, or of a log that was restored since.
func (k *Keeper) storedSince(ctx context.Context, stream uint64, at time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, natsio.AwayTimeout)
	defer cancel()
	m, found, err := natsio.At(ctx, k.o.Deleter.conn.JetStream(), schemas.StreamEvents, stream)
	if err != nil {
		return false, fmt.Errorf("message %d of %s: %w", stream, schemas.StreamEvents, err)
	}
	return found && m.Time.After(at), nil
}

type victim struct {
	entry *index.Entry
	why   string
}

// victims returns the sessions that no rule keeps, those of which nothing was stored for the longest time first.
func (k *Keeper) victims(ctx context.Context, entries []*index.Entry, seen *mark) (all []victim, err error) {
	total, unknown, budget := map[string]int64{}, map[string]bool{}, k.o.PerRound
	newest := func(a, b *index.Entry) int { return cmp.Compare(b.Stream, a.Stream) }
	entries = slices.SortedFunc(slices.Values(entries), newest)
	for _, e := range entries {
		profile := k.profile(e)
		rule := k.o.Rules[profile]
		if rule.MaxBytes > 0 {
			bytes, known, measureErr := k.size(ctx, e, &budget)
			err = errors.Join(err, measureErr)
			unknown[profile] = unknown[profile] || !known
			total[profile] += bytes
		}
		switch {
		case e.Run || e.Summary.Queued > 0 || len(e.Waiting) > 0:
		case rule.MaxAge > 0 && seen.at(rule.MaxAge).Sub(e.Summary.LastActivity) > rule.MaxAge:
			all = append(all, victim{e, ReasonAge})
		case rule.MaxBytes > 0 && total[profile] > rule.MaxBytes && !unknown[profile]:
			all = append(all, victim{e, ReasonSize})
		}
	}
	slices.Reverse(all)
	return all, err
}

// size returns the size of a session's log. It reads the log only if the size is unknown or outdated and the budget of
// the round allows that.
func (k *Keeper) size(ctx context.Context, e *index.Entry, budget *int) (bytes int64, known bool, err error) {
	session := e.Summary.Session
	m, ok := k.sizes[session]
	if ok && (m.stream == e.Stream || *budget <= 0) {
		return m.bytes, true, nil // a later round measures how much it has grown
	}
	if *budget <= 0 {
		return 0, false, nil
	}
	*budget--
	store := k.o.Deleter.o.Store
	for msg, err := range store.Messages(ctx, session) {
		if err != nil {
			return 0, false, fmt.Errorf("size of session %s: %w", session, err)
		}
		bytes += int64(len(msg.Payload))
		events, _ := schemas.SplitLog(session, msg.Header, msg.Payload)
		for _, ev := range events {
			if ev.Ref == "" {
				continue
			}
			n, err := store.PayloadSize(ctx, ev.Ref)
			if err != nil {
				return 0, false, fmt.Errorf("size of session %s: %w", session, err)
			}
			bytes += n
		}
	}
	k.sizes[session] = measured{e.Stream, bytes}
	return bytes, true, nil
}
