package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// runnerEntry is a live runner's entry in agent_runners, under its id. It goes when the runner leaves, or ttl after its
// last renewal (the server may take up to a second longer).
type runnerEntry struct {
	ID      string    `json:"id"`
	Started time.Time `json:"started"`
}

// members keeps one runner's entry alive and knows the others'.
type members struct {
	conn  *Conn
	entry runnerEntry
	ttl   time.Duration // whole seconds: the server knows no finer
	log   *slog.Logger

	renewed atomic.Int64 // when the entry was renewed last, as the time since the epoch in nanoseconds
	told    bool         // the log was told that it has expired; of the goroutine that renews
}

// rejoinWait is how long to wait before watching again after the watch broke.
const rejoinWait = 500 * time.Millisecond

// run announces the runner and calls changed with the ids of all live runners, itself among them, first of all and then
// whenever they change, until ctx ends. It does not take the entry back: that is leave.
func (m *members) run(ctx context.Context, changed func(ids []string)) error {
	if err := m.announce(ctx); err != nil {
		return fmt.Errorf("bus: announce runner %s: %w", m.entry.ID, err)
	}
	m.renewed.Store(time.Now().UnixNano())
	for ctx.Err() == nil {
		if err := m.watch(ctx, changed); err != nil && ctx.Err() == nil {
			m.log.Warn("watching live runners", "err", err)
			wait(ctx, rejoinWait)
		}
	}
	return nil
}

func (m *members) announce(ctx context.Context) error {
	value, err := json.Marshal(m.entry)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, m.ttl)
	defer cancel()
	// kv.Put cannot carry a TTL and would take away the one the entry has.
	_, err = m.conn.js.Publish(ctx, "$KV."+schemas.BucketRunners+"."+m.entry.ID, value, jetstream.WithMsgTTL(m.ttl))
	return err
}

// leave takes the entry back, so that the others need not wait until it expires.
func (m *members) leave(ctx context.Context) error {
	kv, err := m.conn.js.KeyValue(ctx, schemas.BucketRunners)
	if err == nil {
		err = kv.Purge(ctx, m.entry.ID, jetstream.PurgeTTL(markerTTL))
	}
	if err != nil {
		return fmt.Errorf("bus: take back runner %s: %w", m.entry.ID, err)
	}
	return nil
}

// watch renews the entry and follows the bucket until ctx ends or the watch breaks.
func (m *members) watch(ctx context.Context, changed func(ids []string)) error {
	kv, err := m.conn.js.KeyValue(ctx, schemas.BucketRunners)
	if err != nil {
		return err
	}
	watcher, err := kv.WatchAll(ctx)
	if err != nil {
		return err
	}
	defer watcher.Stop()
	renew := time.NewTicker(m.ttl / 4)
	defer renew.Stop()
	live := map[string]time.Time{m.entry.ID: time.Now()}
	var told []string
	complete := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-renew.C:
			m.renew(ctx)
			m.expire(live)
		case e, ok := <-watcher.Updates():
			switch {
			case !ok:
				return fmt.Errorf("bus: watch of %s ended", schemas.BucketRunners)
			case e == nil:
				complete = true
			default:
				m.note(ctx, live, e)
			}
		}
		ids := slices.Sorted(maps.Keys(live))
		if complete && !slices.Equal(ids, told) {
			told = ids
			m.log.Info("live runners", "runners", ids)
			changed(ids)
		}
	}
}

// note notes when an entry was renewed, as this process saw it.
func (m *members) note(ctx context.Context, live map[string]time.Time, e jetstream.KeyValueEntry) {
	switch {
	case e.Operation() == jetstream.KeyValuePut:
		live[e.Key()] = time.Now()
	case e.Key() != m.entry.ID:
		delete(live, e.Key())
	default: // we were away for too long; the others have divided our share by now
		m.renew(ctx)
	}
}

// expire forgets runners whose entries are there and are not renewed: a replica that was down may keep what has expired
// meanwhile, for ever, and the partitions of such a runner would be read by nobody. That this runner's own renewals are
// seen shows that others' would be.
func (m *members) expire(live map[string]time.Time) {
	newest := live[m.entry.ID]
	for id, seen := range live {
		if newest.Sub(seen) > m.ttl+m.ttl/2 {
			m.log.Warn("runner is silent, but its entry has not expired", "silent", id)
			delete(live, id)
		}
	}
}

// renew tells the log once when the entry has expired because nothing can be written, and once when that is over.
func (m *members) renew(ctx context.Context) {
	began := time.Now() // its time to live runs from then at the earliest
	err := m.announce(ctx)
	switch {
	case err == nil:
		m.renewed.Store(began.UnixNano())
		if m.told {
			m.told = false
			m.log.Info("renewed the runner's entry again, it counts as live")
		}
	case ctx.Err() != nil:
	case m.health() != nil && !m.told:
		m.told = true
		m.log.Warn("cannot renew the runner's entry, it does not count as live; are most of the NATS servers up?", "err", err)
	default:
		m.log.Debug("renewing the runner's entry", "err", err)
	}
}

// health returns an error while the entry has expired: it has not been renewed for longer than it lives.
func (m *members) health() error {
	if silent := time.Since(time.Unix(0, m.renewed.Load())); silent > m.ttl {
		return fmt.Errorf("bus: runner %s could not renew its entry for %s: the NATS servers store nothing, or cannot be reached",
			m.entry.ID, silent.Round(time.Second))
	}
	return nil
}
