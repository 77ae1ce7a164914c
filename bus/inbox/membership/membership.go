package membership

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Network connects the runners with each other and with the list of runners.
type Network interface {
	// Join calls receive with every heartbeat and answers probes of this runner, until stop is called.
	Join(receive func(heartbeat []byte)) (stop func(), err error)
	// Publish sends a heartbeat to all runners, this one included.
	Publish(heartbeat []byte) error
	// Unconnected reports whether the servers have no connection of a runner.
	Unconnected(ctx context.Context, id string) bool
	// Listed returns the ids of the listed runners.
	Listed(ctx context.Context) ([]string, error)
	// Enlist lists this runner for [EntryTTL].
	Enlist(ctx context.Context, started time.Time) error
	// Remove removes this runner from the list.
	Remove(ctx context.Context) error
}

// Options configure [New]. All fields are required.
type Options struct {
	// ID names this runner: a single subject token that no other runner uses.
	ID      string
	Network Network
	// DeadAfter is how long after its last heartbeat a runner is considered dead.
	DeadAfter time.Duration
	Logger    *slog.Logger
}

// View is what a runner knows of the live runners at one moment.
type View struct {
	IDs []string // of the live runners, this one included, sorted and distinct
	// Readers are those of IDs that can read the inbox as far as they know; all of them if none can.
	Readers []string
	Reads   map[int]string // which other live runner reads a partition, by partition
	Lost    int            // how many runners were dropped that had not left
}

// Membership keeps one runner live and tracks the others. Its methods may be called concurrently.
type Membership struct {
	o         Options
	started   time.Time
	changed   chan struct{} // has a token when the view has changed
	beat      chan struct{} // has a token when a heartbeat is due at once
	joined    chan struct{} // has a token when the first heartbeat of another runner has arrived
	duplicate sync.Once     // logs that another process has the same id
	renewed   atomic.Int64  // when the entry was renewed, in nanoseconds since the epoch

	mu     sync.Mutex
	reads  []int
	unable bool
	peers  map[string]*peer // the other live runners, by id
	lost   int
}

// peer is another live runner.
type peer struct {
	lastSeen time.Time
	reads    []int
	unable   bool
}

// New returns a membership that does nothing before [Membership.Run].
func New(o Options) *Membership {
	return &Membership{
		o: o, started: time.Now().UTC(), changed: make(chan struct{}, 1), beat: make(chan struct{}, 1),
		joined: make(chan struct{}, 1), peers: map[string]*peer{},
	}
}

// Changed returns a channel that has a token when the view may have changed since the last token was taken.
func (m *Membership) Changed() <-chan struct{} { return m.changed }

// View returns the current view. The caller owns it.
func (m *Membership) View() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := View{IDs: m.ids(), Reads: map[int]string{}, Lost: m.lost}
	for id, p := range m.peers {
		for _, n := range p.reads {
			v.Reads[n] = id
		}
	}
	for _, id := range v.IDs {
		if p := m.peers[id]; p != nil && !p.unable || p == nil && !m.unable {
			v.Readers = append(v.Readers, id)
		}
	}
	if v.Readers == nil {
		v.Readers = slices.Clone(v.IDs)
	}
	return v
}

// SetReads announces to the other runners which partitions this runner reads now. The caller must not change the slice.
func (m *Membership) SetReads(partitions []int) {
	m.mu.Lock()
	same := slices.Equal(m.reads, partitions)
	m.reads = partitions
	m.mu.Unlock()
	if !same {
		signal(m.beat)
	}
}

// SetUnable announces to the other runners whether this runner, which is live, cannot read the inbox. They read its
// share then.
func (m *Membership) SetUnable(unable bool) {
	m.mu.Lock()
	same := m.unable == unable
	m.unable = unable
	m.mu.Unlock()
	if !same {
		signal(m.beat)
	}
}

// heartbeat is what a runner publishes: that it is live and what it reads, that it leaves, or that another one is lost.
type heartbeat struct {
	ID      string    `json:"id"`
	Started time.Time `json:"started,omitzero"`
	Reads   []int     `json:"reads,omitempty"`
	Unable  bool      `json:"unable,omitempty"` // ID cannot read
	Left    bool      `json:"left,omitempty"`   // ID shuts down
	Gone    bool      `json:"gone,omitempty"`   // By has found that ID has no connection
	By      string    `json:"by,omitempty"`
	Join    bool      `json:"join,omitempty"` // ID has just started: every runner answers with a heartbeat at once
}

func (m *Membership) publish(h heartbeat) {
	data, err := json.Marshal(h)
	if err == nil {
		err = m.o.Network.Publish(data)
	}
	if err != nil {
		m.o.Logger.Debug("heartbeat not published", "err", err)
	}
}

// receive processes a heartbeat.
func (m *Membership) receive(data []byte) {
	var h heartbeat
	if err := json.Unmarshal(data, &h); err != nil || schemas.CheckToken("runner", h.ID) != nil {
		m.o.Logger.Warn("heartbeat is malformed", "err", err)
		return
	}
	switch {
	case h.ID == m.o.ID && h.Gone: // a false alarm
		signal(m.beat)
	case h.ID == m.o.ID:
		if !h.Left && !h.Started.Equal(m.started) {
			m.duplicate.Do(func() {
				m.o.Logger.Error("another process has the same runner id: each takes the inbox from the other", "started",
					h.Started)
			})
		}
	case h.Left:
		m.drop(h.ID, false, "it has left")
	case h.Gone:
		m.drop(h.ID, true, "its connection is closed, reported by "+h.By)
	default:
		m.add(h)
	}
}

func (m *Membership) add(h heartbeat) {
	m.mu.Lock()
	p := m.peers[h.ID]
	m.peers[h.ID] = &peer{time.Now(), h.Reads, h.Unable}
	m.mu.Unlock()
	if p == nil {
		m.o.Logger.Info("runner is live", "peer", h.ID)
		signal(m.joined)
	}
	if p == nil || !slices.Equal(p.reads, h.Reads) || p.unable != h.Unable {
		signal(m.changed)
	}
	if h.Join {
		signal(m.beat)
	}
}

// drop removes a runner from the live ones. lost is true if the runner has not left by itself.
func (m *Membership) drop(id string, lost bool, why string) {
	m.mu.Lock()
	_, known := m.peers[id]
	delete(m.peers, id)
	if known && lost {
		m.lost++
	}
	m.mu.Unlock()
	if known {
		m.o.Logger.Info("runner is not live any more", "peer", id, "reason", why)
		signal(m.changed)
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// ids returns the sorted ids of all live runners. mu is held.
func (m *Membership) ids() []string {
	ids := []string{m.o.ID}
	for id := range m.peers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
