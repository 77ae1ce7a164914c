package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

const (
	heartbeatsPerPeriod = 4 // heartbeats in DeadAfter: three may be late or lost
	probeEvery          = 100 * time.Millisecond
	// missesToGone is how many probes in a row have to find no responders: a connection that was lost and is made again
	// at once is not taken for a process that is gone.
	missesToGone = 2
)

// Run keeps the runner live until ctx ends, and calls ready once those that were listed have been heard, or have been
// silent for DeadAfter. It does not say goodbye: that is [Membership.Leave].
func (m *Membership) Run(ctx context.Context, ready func()) error {
	sub, err := m.o.NATS.Subscribe(m.o.Subjects.Heartbeat(), m.receive)
	if err != nil {
		return fmt.Errorf("membership: runner %s: subscribe to heartbeats: %w", m.o.ID, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	probes, err := m.o.NATS.Subscribe(m.o.Subjects.Probe(m.o.ID), func(probe *nats.Msg) {
		if schemas.IsInbox(probe.Reply) { // anybody may ask, but not for a message to anywhere
			_ = probe.Respond(nil)
		}
	})
	if err != nil {
		return fmt.Errorf("membership: runner %s: subscribe to probes: %w", m.o.ID, err)
	}
	defer func() { _ = probes.Unsubscribe() }()
	listed, err := m.enter(ctx)
	if err != nil {
		return fmt.Errorf("membership: announce runner %s: %w", m.o.ID, err)
	}
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() { m.keepEntry(ctx) })
	working.Go(func() { m.probe(ctx) })
	m.keepAlive(ctx, listed, ready)
	return nil
}

// enter asks the others for a heartbeat and lists the runner; it returns those that were listed before.
func (m *Membership) enter(ctx context.Context) (listed []string, err error) {
	m.mu.Lock()
	m.publish(heartbeat{ID: m.o.ID, Started: m.started, Join: true})
	m.mu.Unlock()
	if listed, err = m.entries(ctx); err != nil {
		return nil, err
	}
	return listed, m.putEntry(ctx, entryTimeout)
}

// keepAlive publishes heartbeats and looks who is silent, until ctx ends.
func (m *Membership) keepAlive(ctx context.Context, listed []string, ready func()) {
	interval := m.o.DeadAfter / heartbeatsPerPeriod
	tick := time.NewTicker(interval)
	defer tick.Stop()
	began := time.Now()
	for looked := began; ; {
		if ready != nil && (m.allSeen(listed) || time.Since(began) > m.o.DeadAfter) {
			ready()
			ready = nil
		}
		var now time.Time
		select {
		case <-ctx.Done():
			return
		case <-m.pollWhile(ready != nil):
			continue
		case <-tick.C:
			now = time.Now()
		}
		m.heartbeat()
		// Whoever was suspended has received no heartbeats, and must not take the others for dead.
		m.dropSilent(now, max(now.Sub(looked), now.Round(0).Sub(looked.Round(0))) > 2*interval)
		looked = now
	}
}

// pollWhile looks often while the newcomer waits, so that it does not wait longer than it has to.
func (m *Membership) pollWhile(waiting bool) <-chan time.Time {
	if !waiting {
		return nil
	}
	return time.After(2 * time.Millisecond)
}

func (m *Membership) allSeen(ids []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !slices.ContainsFunc(ids, func(id string) bool { return m.peers[id] == nil })
}

// dropSilent drops the runners that have been silent for too long. suspended says that this process may be the one that
// was held up: then all get as long again.
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

// probe asks the successor in the list of live runners again and again whether it has a connection.
func (m *Membership) probe(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for misses, last := 0, ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		id := m.successor()
		if id != last {
			misses, last = 0, id
		}
		if id == "" {
			continue
		}
		misses++
		if !m.unconnected(ctx, id) {
			misses = 0
		}
		if misses == missesToGone {
			m.drop(id, true, "its connection is closed")
			m.publish(heartbeat{ID: id, Gone: true, By: m.o.ID})
		}
	}
}

// unconnected reports whether the server knows of no connection of a runner. A runner that is suspended does not
// answer, and has one.
func (m *Membership) unconnected(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, m.o.DeadAfter)
	defer cancel()
	_, err := m.o.NATS.RequestWithContext(ctx, m.o.Subjects.Probe(id), nil)
	return errors.Is(err, nats.ErrNoResponders)
}

// successor is the live runner after this one, "" if there is none.
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

// ids are all live runners, sorted. mu is held.
func (m *Membership) ids() []string {
	ids := []string{m.o.ID}
	for id := range m.peers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
