package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const (
	entryTTL     = 5 * time.Second // the server knows whole seconds, and may be one late
	renewEvery   = 1500 * time.Millisecond
	renewTimeout = time.Second
	entryTimeout = 5 * time.Second  // of a request that somebody waits for
	markerTTL    = 30 * time.Second // how long the bucket keeps the mark of an entry that was removed
)

// entry is a runner's entry in the bucket agent_runners, under its id.
type entry struct {
	ID      string    `json:"id"`
	Started time.Time `json:"started"`
}

// putEntry lists the runner for entryTTL.
func (m *Membership) putEntry(ctx context.Context, timeout time.Duration) error {
	value, err := json.Marshal(entry{ID: m.o.ID, Started: m.started})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now() // its time to live runs from then at the earliest
	// kv.Put cannot carry a TTL and would take away the one the entry has.
	subject := natsio.KeySubject(m.o.JetStream, schemas.BucketRunners, m.o.ID)
	_, err = m.o.JetStream.Publish(ctx, subject, value, jetstream.WithMsgTTL(entryTTL))
	if err == nil {
		m.renewed.Store(began.UnixNano())
	}
	return err
}

// entries are the other runners that are listed.
func (m *Membership) entries(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, entryTimeout)
	defer cancel()
	kv, err := m.o.JetStream.KeyValue(ctx, schemas.BucketRunners)
	if err != nil {
		return nil, err
	}
	ids, err := kv.Keys(ctx)
	if errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil, nil
	}
	return slices.DeleteFunc(ids, func(id string) bool { return id == m.o.ID }), err
}

// keepEntry renews the entry until ctx ends. It logs once that it has expired, because nothing can be written, and once
// that this is over.
func (m *Membership) keepEntry(ctx context.Context) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	logged := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := m.putEntry(ctx, renewTimeout)
		switch {
		case err == nil && logged:
			logged = false
			m.o.Logger.Info("renewed the runner's entry again")
		case err != nil && ctx.Err() == nil && !logged && m.Health() != nil:
			logged = true
			m.o.Logger.Warn("cannot renew the runner's entry; are most of the NATS servers up?", "err", err)
		}
	}
}

func (m *Membership) removeEntry(ctx context.Context) error {
	kv, err := m.o.JetStream.KeyValue(ctx, schemas.BucketRunners)
	if err == nil {
		err = kv.Purge(ctx, m.o.ID, jetstream.PurgeTTL(markerTTL))
	}
	if err != nil {
		return fmt.Errorf("membership: take back the entry of runner %s: %w", m.o.ID, err)
	}
	return nil
}

// Health returns nil while the runner can write. It does not once its entry could not be renewed for as long as it
// lives: the runner cannot reach the servers, most of them are down, or the process was suspended.
func (m *Membership) Health() error {
	if silent := time.Since(time.Unix(0, m.renewed.Load())); silent > entryTTL {
		return fmt.Errorf("membership: runner %s could not renew its entry for %s: the NATS servers store nothing, or "+
			"cannot be reached", m.o.ID, silent.Round(time.Second))
	}
	return nil
}
