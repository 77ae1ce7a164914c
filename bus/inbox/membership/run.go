package membership

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus/natsio"
)

const (
	// EntryTTL is how long an entry lasts. The server counts in whole seconds, and may be one second late.
	EntryTTL      = 5 * time.Second
	renewEvery    = 1500 * time.Millisecond
	renewTimeout  = time.Second
	entryTimeout  = 5 * time.Second // of requests at the start of Run
	removeTimeout = 2 * time.Second

	heartbeatsPerPeriod = 4 // in DeadAfter: three may be late or lost
	probeEvery          = 100 * time.Millisecond
	// missesToDrop is how many probes in a row have to find no responders: a runner that reconnects at once is not
	// lost.
	missesToDrop = 2
)

// Run keeps the runner live until ctx ends. Then it announces that the runner leaves, so that the others take over at
// once. It calls ready once every listed runner has sent a heartbeat, or DeadAfter has passed. Run may be called once.
func (m *Membership) Run(ctx context.Context, ready func()) error {
	stop, err := m.o.Network.Join(m.receive)
	if err != nil {
		return fmt.Errorf("membership: runner %s: %w", m.o.ID, err)
	}
	defer stop()
	m.heartbeat(true)
	listed, err := m.o.Network.Listed(ctx)
	if err == nil {
		err = m.renew(ctx, entryTimeout)
	}
	if err != nil {
		return fmt.Errorf("membership: announce runner %s: %w", m.o.ID, err)
	}
	var others sync.WaitGroup
	others.Go(func() { m.keepEntry(ctx) })
	others.Go(func() { m.probe(ctx) })
	m.keepAlive(ctx, listed, ready)
	m.publish(heartbeat{ID: m.o.ID, Left: true})
	others.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	return m.o.Network.Remove(ctx)
}

// keepAlive publishes heartbeats and drops silent runners, until ctx ends.
func (m *Membership) keepAlive(ctx context.Context, listed []string, ready func()) {
	interval := m.o.DeadAfter / heartbeatsPerPeriod
	tick := time.NewTicker(interval)
	defer tick.Stop()
	late := time.After(m.o.DeadAfter)
	for checked := time.Now(); ; {
		if ready != nil && m.allSeen(listed) {
			ready()
			ready = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-m.joined:
		case <-late:
			listed = nil
		case <-m.beat:
			m.heartbeat(false)
		case now := <-tick.C:
			m.heartbeat(false)
			// A process that was suspended has received no heartbeats, and must not consider the others dead.
			m.dropSilent(now, max(now.Sub(checked), now.Round(0).Sub(checked.Round(0))) > 2*interval)
			checked = now
		}
	}
}

func (m *Membership) heartbeat(join bool) {
	m.mu.Lock()
	h := heartbeat{ID: m.o.ID, Started: m.started, Reads: m.reads, Unable: m.unable, Join: join}
	m.mu.Unlock()
	m.publish(h)
}

func (m *Membership) allSeen(ids []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !slices.ContainsFunc(ids, func(id string) bool { return id != m.o.ID && m.peers[id] == nil })
}

// dropSilent drops the runners without a heartbeat for DeadAfter. If this process may have been suspended itself, all
// runners get that time again.
func (m *Membership) dropSilent(now time.Time, suspended bool) {
	var silent []string
	m.mu.Lock()
	for id, p := range m.peers {
		if suspended {
			p.lastSeen = now
		} else if now.Sub(p.lastSeen) > m.o.DeadAfter {
			silent = append(silent, id)
		}
	}
	m.mu.Unlock()
	for _, id := range silent {
		m.drop(id, true, "it has been silent for "+m.o.DeadAfter.String())
	}
}

// probe checks ten times a second whether the successor in the list of live runners has a connection.
func (m *Membership) probe(ctx context.Context) {
	misses, last := 0, ""
	for natsio.Wait(ctx, probeEvery) {
		id := m.successor()
		if id != last {
			misses, last = 0, id
		}
		if id == "" {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, m.o.DeadAfter)
		if misses++; !m.o.Network.Unconnected(limited, id) {
			misses = 0
		}
		cancel()
		if misses == missesToDrop {
			m.drop(id, true, "its connection is closed")
			m.publish(heartbeat{ID: id, Gone: true, By: m.o.ID})
		}
	}
}

// successor returns the live runner after this one, "" if there is none.
func (m *Membership) successor() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := m.ids()
	at, _ := slices.BinarySearch(ids, m.o.ID)
	if next := ids[(at+1)%len(ids)]; next != m.o.ID {
		return next
	}
	return ""
}

// keepEntry renews the entry until ctx ends. It logs once that the entry has expired because it could not be renewed,
// and once that it was renewed again.
func (m *Membership) keepEntry(ctx context.Context) {
	for logged := false; natsio.Wait(ctx, renewEvery); {
		err := m.renew(ctx, renewTimeout)
		switch {
		case err == nil && logged:
			logged = false
			m.o.Logger.Info("runner's entry renewed again")
		case err != nil && ctx.Err() == nil && !logged && m.Health() != nil:
			logged = true
			m.o.Logger.Warn("cannot renew the runner's entry; are most of the NATS servers up?", "err", err)
		}
	}
}

func (m *Membership) renew(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now() // the TTL does not begin before
	err := m.o.Network.Enlist(ctx, m.started)
	if err == nil {
		m.renewed.Store(began.UnixNano())
	}
	return err
}

// Health returns nil while the runner can write to the servers, and an error once its entry could not be renewed for
// [EntryTTL]: the runner cannot reach the servers, most of them are down, or the process was suspended.
func (m *Membership) Health() error {
	if silent := time.Since(time.Unix(0, m.renewed.Load())); silent > EntryTTL {
		return fmt.Errorf("membership: runner %s could not renew its entry for %s: the NATS servers store nothing, or "+
			"cannot be reached", m.o.ID, silent.Round(time.Second))
	}
	return nil
}
