package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/schemas"
)

// Rule says how long sessions are kept. Zero members keep them for ever.
type Rule struct {
	// MaxAge is how long a session is kept after its last activity.
	MaxAge time.Duration
	// MaxBytes is how large the logs of all sessions of the profile may be together, with their big payloads. Those that
	// have rested longest go first.
	MaxBytes int64
}

// KeeperOptions are what a [Keeper] works with. ID, Deleter and Index are required.
type KeeperOptions struct {
	ID      string // of the runner
	Deleter *Deleter
	Index   *index.Index
	// Rules are those of profiles; that of "" is for sessions of any other profile, and of none.
	Rules map[string]Rule
	// Interval is the time between two rounds of a deployment; 0: 1 min.
	Interval time.Duration
	// PerRound bounds how many sessions a round deletes, and how many it measures; 0: 200.
	PerRound int
	// OnDeleted, if set, is called for each session deleted, with the reason: age or size.
	OnDeleted func(reason string)
	// Logger logs what is not deleted, and why; nil discards.
	Logger *slog.Logger
}

// Keeper deletes sessions by rule. Of all keepers of a deployment one works at a time: the one that holds the lease.
type Keeper struct {
	o     KeeperOptions
	now   func(ctx context.Context) (time.Time, error)
	sizes map[string]measured // of sessions, where a rule needs them
	held  struct {            // the lease, as it was when it was looked at
		revision uint64
		since    time.Time // when it was seen first
	}
}

type measured struct {
	stream uint64 // the message that the log ended with
	bytes  int64
}

// The reasons of a [Keeper].
const (
	ReasonAge  = "age"
	ReasonSize = "size"
)

// NewKeeper returns a keeper that does nothing before [Keeper.Run].
func NewKeeper(o KeeperOptions) *Keeper {
	o.Interval, o.PerRound = cmp.Or(o.Interval, time.Minute), cmp.Or(o.PerRound, 200)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Keeper{o: o, sizes: map[string]measured{}, now: o.Deleter.serverTime}
}

// Run has a round carried out in each interval until ctx ends. It returns nil.
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

const keyLease = "lease"

// lease takes the lease, or renews it. A keeper that holds it keeps it as long as it lives.
func (k *Keeper) lease(ctx context.Context) (held bool, err error) {
	d := k.o.Deleter
	kv, err := d.bucket(ctx)
	if err != nil {
		return false, err
	}
	ttl := max(3*k.o.Interval, time.Second) // servers know no shorter one
	entry, err := kv.Get(ctx, keyLease)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		_, err = kv.Create(ctx, keyLease, []byte(k.o.ID), jetstream.KeyTTL(ttl))
	case err == nil && k.another(entry, 2*ttl):
		return false, nil
	case err == nil:
		// KeyValue.Update gives no TTL.
		msg := nats.NewMsg("$KV." + schemas.BucketDeletions + "." + keyLease)
		msg.Data = []byte(k.o.ID)
		msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(entry.Revision(), 10))
		_, err = d.conn.JetStream().PublishMsg(ctx, msg, jetstream.WithMsgTTL(ttl))
	}
	if conflict(err) {
		return false, nil
	}
	return err == nil, err
}

// another reports whether another keeper holds the lease. One that is not renewed ends by its TTL; one that has none no
// keeper has written, and it is waited for as long as given. The time is that of this process alone: its clock need not
// agree with the server's.
func (k *Keeper) another(entry jetstream.KeyValueEntry, atMost time.Duration) bool {
	if string(entry.Value()) == k.o.ID || codec.IsAnswer(nil, entry.Value()) || len(entry.Value()) == 0 {
		return false // a server's answer is nobody's
	}
	if k.held.revision != entry.Revision() {
		k.held.revision, k.held.since = entry.Revision(), time.Now()
	}
	return time.Since(k.held.since) < atMost
}

// serverTime is the time of the server that has the bucket. Sessions are not deleted by a clock of one machine that is
// wrong.
func (d *Deleter) serverTime(ctx context.Context) (time.Time, error) {
	s, err := d.conn.JetStream().Stream(ctx, "KV_"+schemas.BucketDeletions)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask the server for the time: %w", err)
	}
	return s.CachedInfo().TimeStamp, nil
}

// Round deletes what the rules do not keep, as much as one round may, and returns how many sessions it has deleted.
// Sessions of which something is under way, or waits, are left alone.
func (k *Keeper) Round(ctx context.Context) (deleted int, err error) {
	view := k.o.Index.View()
	if view.Partial {
		return 0, nil
	}
	now, err := k.now(ctx)
	if err != nil {
		return 0, err
	}
	victims, err := k.victims(ctx, view.Entries, now)
	for _, v := range victims {
		if deleted >= k.o.PerRound || ctx.Err() != nil {
			break
		}
		e := v.entry
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

type victim struct {
	entry *index.Entry
	why   string
}

// victims are the sessions that no rule keeps, those that have rested longest first. entries are in the order of the
// index, the latest activity first.
func (k *Keeper) victims(ctx context.Context, entries []*index.Entry, now time.Time) (all []victim,
	err error) {
	total, unknown, budget := map[string]int64{}, map[string]bool{}, k.o.PerRound
	for _, e := range entries {
		profile := e.Summary.Profile
		if _, ok := k.o.Rules[profile]; !ok {
			profile = ""
		}
		rule := k.o.Rules[profile]
		if rule.MaxBytes > 0 {
			bytes, known, measureErr := k.size(ctx, e, &budget)
			err = errors.Join(err, measureErr)
			unknown[profile] = unknown[profile] || !known
			total[profile] += bytes
		}
		switch {
		case e.Run || e.Summary.Queued > 0 || len(e.Waiting) > 0:
		case rule.MaxAge > 0 && now.Sub(e.Summary.LastActivity) > rule.MaxAge:
			all = append(all, victim{e, ReasonAge})
		case rule.MaxBytes > 0 && total[profile] > rule.MaxBytes && !unknown[profile]:
			all = append(all, victim{e, ReasonSize})
		}
	}
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return all, err
}

// size is how large a session's log is. It is read only where it is not known and the budget of the round allows.
func (k *Keeper) size(ctx context.Context, e *index.Entry, budget *int) (bytes int64, known bool, err error) {
	session := e.Summary.Session
	m, ok := k.sizes[session]
	if ok && (m.stream == e.Stream || *budget <= 0) {
		return m.bytes, true, nil // what it has grown by is found out later
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
