package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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
}

// rejoinWait is how long to wait before watching again after the watch broke.
const rejoinWait = 500 * time.Millisecond

// run announces the runner and calls changed with the ids of all live runners, itself among them, first of all and then
// whenever they change, until ctx ends. It does not take the entry back: that is leave.
func (m *members) run(ctx context.Context, changed func(ids []string)) error {
	if err := m.announce(ctx); err != nil {
		return fmt.Errorf("bus: announce runner %s: %w", m.entry.ID, err)
	}
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
	live := map[string]bool{m.entry.ID: true}
	var told []string
	complete := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-renew.C:
			m.renew(ctx)
			continue
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

func (m *members) note(ctx context.Context, live map[string]bool, e jetstream.KeyValueEntry) {
	switch {
	case e.Operation() == jetstream.KeyValuePut:
		live[e.Key()] = true
	case e.Key() != m.entry.ID:
		delete(live, e.Key())
	default: // we were away for too long; the others have divided our share by now
		m.renew(ctx)
	}
}

func (m *members) renew(ctx context.Context) {
	if err := m.announce(ctx); err != nil && ctx.Err() == nil {
		m.log.Warn("renewing the runner's entry", "err", err)
	}
}
