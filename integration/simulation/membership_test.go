package simulation_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	takeover            = time.Second // without a heartbeat, after which a runner counts as dead
	heartbeatsPerPeriod = 4
	entryTTL            = 10 * time.Second
)

// membership tells a runner which others are live, and what they read, as package membership does.
type membership struct {
	*process
	changed chan struct{} // has a token when the view is another

	mu    sync.Mutex
	left  bool
	reads []int
	peers map[string]*peer
	lost  int
}

type peer struct {
	lastSeen time.Time
	reads    []int
}

// heartbeat is what runners tell each other.
type heartbeat struct {
	id               string
	reads            []int
	left, gone, join bool
}

// view is what a runner knows of the live runners at one moment.
type view struct {
	ids   []string
	reads map[int]string // partitions that others read
	lost  int
}

func newMembership(p *process) *membership {
	return &membership{process: p, changed: make(chan struct{}, 1), peers: map[string]*peer{}}
}

// view returns what is known now.
func (m *membership) view() view {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := view{ids: append(slices.Collect(maps.Keys(m.peers)), m.name), reads: map[int]string{}, lost: m.lost}
	slices.Sort(v.ids)
	for id, p := range m.peers {
		for _, n := range p.reads {
			v.reads[n] = id
		}
	}
	return v
}

// setReads tells the others what this runner reads.
func (m *membership) setReads(partitions []int) {
	m.mu.Lock()
	m.reads = partitions
	m.mu.Unlock()
	m.heartbeat()
}

func (m *membership) heartbeat() {
	m.mu.Lock()
	h, left := heartbeat{id: m.name, reads: m.reads}, m.left
	m.mu.Unlock()
	if !left {
		m.publish(h)
	}
}

func (m *membership) publish(h heartbeat) { m.send("heartbeat", func() { m.broadcast(h) }) }

// receive takes in a heartbeat.
func (m *membership) receive(h heartbeat) {
	switch {
	case h.id == m.name:
		if h.gone { // a false alarm
			m.heartbeat()
		}
		return
	case h.left:
		m.drop(h.id, false)
	case h.gone:
		m.drop(h.id, true)
	default:
		m.add(h)
	}
	if h.join {
		m.heartbeat()
	}
}

func (m *membership) add(h heartbeat) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.peers[h.id]
	if p == nil {
		p = &peer{}
		m.peers[h.id] = p
		m.wake()
	} else if !slices.Equal(p.reads, h.reads) {
		m.wake()
	}
	p.lastSeen, p.reads = time.Now(), h.reads
}

func (m *membership) drop(id string, lost bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.peers[id] == nil {
		return
	}
	delete(m.peers, id)
	if lost {
		m.lost++
		m.note("%s: misses %s", m.name, id)
	}
	m.wake()
}

func (m *membership) wake() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// leave says goodbye.
func (m *membership) leave() {
	m.mu.Lock()
	m.left = true
	m.mu.Unlock()
	m.publish(heartbeat{id: m.name, left: true})
	m.send("leave", func() { m.list(m.name, 0) })
}

// run sends heartbeats until ctx ends. It calls ready once those that were listed have sent a heartbeat, or have missed
// theirs.
func (m *membership) run(ctx context.Context, ready func()) {
	m.subscribe(m)
	defer m.unsubscribe(m)
	m.publish(heartbeat{id: m.name, join: true})
	var listed []string
	for err := error(errNoAnswer); err != nil; {
		if listed, err = ask(ctx, m.process, "enter",
			func() ([]string, error) { return m.list(m.name, entryTTL), nil }); ctx.Err() != nil {
			return
		}
	}
	m.keepAlive(ctx, listed, ready)
}

func (m *membership) keepAlive(ctx context.Context, listed []string, ready func()) {
	const interval = takeover / heartbeatsPerPeriod
	tick := time.NewTicker(interval)
	defer tick.Stop()
	began := time.Now()
	for looked := began; ; {
		if ready != nil && (m.allSeen(listed) || time.Since(began) > takeover) {
			ready()
			ready = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-m.pollWhile(ready != nil):
			continue
		case <-tick.C:
		}
		if m.pass("beats") != nil {
			return
		}
		now := time.Now()
		m.heartbeat()
		m.send("renew", func() { m.list(m.name, entryTTL) })
		m.dropSilent(now, now.Sub(looked) > 2*interval)
		looked = now
	}
}

func (m *membership) pollWhile(waiting bool) <-chan time.Time {
	if !waiting {
		return nil
	}
	return time.After(2 * time.Millisecond)
}

func (m *membership) allSeen(ids []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !slices.ContainsFunc(ids, func(id string) bool { return m.peers[id] == nil })
}

// dropSilent drops those that have sent no heartbeat for too long; suspended says that this process may have been.
func (m *membership) dropSilent(now time.Time, suspended bool) {
	var silent []string
	m.mu.Lock()
	for id, p := range m.peers {
		if suspended {
			p.lastSeen = now
		} else if now.Sub(p.lastSeen) > takeover {
			silent = append(silent, id)
		}
	}
	m.mu.Unlock()
	slices.Sort(silent)
	for _, id := range silent {
		m.drop(id, true)
	}
}

// members is what the servers do for the runners: they forward heartbeats, and keep a list. The world's lock guards it.
type members struct {
	live    []*membership
	entries map[string]time.Time // when they expire
}

func (w *world) subscribe(m *membership) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members.live = append(w.members.live, m)
}

func (w *world) unsubscribe(m *membership) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members.live = slices.DeleteFunc(w.members.live, func(o *membership) bool { return o == m })
}

func (w *world) broadcast(h heartbeat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.members.live {
		if m.name != h.id || h.gone {
			m.deliver(h.id, func() { m.receive(h) })
		}
	}
}

// miss has the others take a runner for dead, because its connection is closed: rightly or not.
func (w *world) miss(name string) {
	r := w.draw("miss " + name)
	if r.percent(10) {
		return // the runner that should probe it does not: its missing heartbeats will be noticed
	}
	time.Sleep(r.between(100*time.Millisecond, 300*time.Millisecond))
	w.broadcast(heartbeat{id: name, gone: true})
}

// list lists a runner for a while, and returns the others that are.
func (w *world) list(name string, ttl time.Duration) (listed []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for id, till := range w.members.entries {
		if id != name && till.After(now) {
			listed = append(listed, id)
		}
	}
	w.members.entries[name] = now.Add(ttl)
	slices.Sort(listed)
	return listed
}
