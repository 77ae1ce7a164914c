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

// Network is how runners reach each other, and the list of them that operators read.
type Network interface {
	// Join has receive called with every heartbeat, and probes of this runner answered, until stop is called.
	Join(receive func(heartbeat []byte)) (stop func(), err error)
	Publish(heartbeat []byte) error
	// Unconnected reports whether the servers know of no connection of a runner.
	Unconnected(ctx context.Context, id string) bool
	// Listed are the runners in the list. Enlist puts this one into it for [EntryTTL], Remove takes it out.
	Listed(ctx context.Context) ([]string, error)
	Enlist(ctx context.Context, started time.Time) error
	Remove(ctx context.Context) error
}

// Options configure [New]. All are required.
type Options struct {
	// ID names this runner: a single subject token, used by nobody else.
	ID      string
	Network Network
	// DeadAfter is how long after its last heartbeat a runner is taken for dead.
	DeadAfter time.Duration
	Logger    *slog.Logger
}

// View is what a runner knows of the live runners at one moment.
type View struct {
	IDs []string // of all live runners, this one among them, sorted
	// Reads are the partitions that other live runners read, by partition.
	Reads map[int]string
	// Lost counts the runners that have gone without a goodbye.
	Lost int
}

// Membership keeps one runner among the live ones. All methods may be called concurrently.
type Membership struct {
	o       Options
	started time.Time
	changed chan struct{} // has a token when the view is another
	beat    chan struct{} // has a token when a heartbeat is due at once
	met     chan struct{} // has a token when another runner's first heartbeat has come
	twice   sync.Once     // told that another process has the id
	renewed atomic.Int64  // when the entry was renewed last, in nanoseconds since the epoch

	mu    sync.Mutex
	reads []int
	peers map[string]*peer // the others
	lost  int
}

// peer is another runner.
type peer struct {
	lastSeen time.Time
	reads    []int
}

// New returns a membership that does nothing before [Membership.Run].
func New(o Options) *Membership {
	return &Membership{
		o: o, started: time.Now().UTC(), changed: make(chan struct{}, 1), beat: make(chan struct{}, 1),
		met:   make(chan struct{}, 1),
		peers: map[string]*peer{},
	}
}

// Changed has a token when the view may be another than when the last token was taken.
func (m *Membership) Changed() <-chan struct{} { return m.changed }

// View returns what is known now. The caller owns it.
func (m *Membership) View() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := View{IDs: m.ids(), Reads: map[int]string{}, Lost: m.lost}
	for id, p := range m.peers {
		for _, n := range p.reads {
			v.Reads[n] = id
		}
	}
	return v
}

// Reads tells the others which partitions this runner reads from now on.
func (m *Membership) Reads(partitions []int) {
	m.mu.Lock()
	known := slices.Equal(m.reads, partitions)
	m.reads = partitions
	m.mu.Unlock()
	if !known {
		signal(m.beat)
	}
}

// heartbeat is what a runner publishes: that it is live and what it reads, that it leaves, or that another is gone.
type heartbeat struct {
	ID      string    `json:"id"`
	Started time.Time `json:"started,omitzero"`
	Reads   []int     `json:"reads,omitempty"`
	Left    bool      `json:"left,omitempty"` // ID says goodbye
	Gone    bool      `json:"gone,omitempty"` // By has found that ID has no connection any more
	By      string    `json:"by,omitempty"`
	Join    bool      `json:"join,omitempty"` // ID has just started: everybody answers with a heartbeat at once
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

// receive takes in a heartbeat.
func (m *Membership) receive(data []byte) {
	var h heartbeat
	if err := json.Unmarshal(data, &h); err != nil || schemas.CheckToken("runner", h.ID) != nil {
		m.o.Logger.Warn("heartbeat not understood", "err", err)
		return
	}
	switch {
	case h.ID == m.o.ID && h.Gone: // a false alarm
		signal(m.beat)
	case h.ID == m.o.ID:
		if !h.Left && !h.Started.Equal(m.started) {
			m.twice.Do(func() {
				m.o.Logger.Error("another process has the same runner id: both will take the inbox from each other", "started",
					h.Started)
			})
		}
	case h.Left:
		m.drop(h.ID, false, "it has left")
	case h.Gone:
		m.drop(h.ID, true, "its connection is closed, says "+h.By)
	default:
		m.add(h)
	}
}

func (m *Membership) add(h heartbeat) {
	m.mu.Lock()
	p := m.peers[h.ID]
	m.peers[h.ID] = &peer{time.Now(), h.Reads}
	m.mu.Unlock()
	if p == nil {
		m.o.Logger.Info("runner is live", "peer", h.ID)
		signal(m.met)
	}
	if p == nil || !slices.Equal(p.reads, h.Reads) {
		signal(m.changed)
	}
	if h.Join {
		signal(m.beat)
	}
}

// drop forgets a runner. lost says that it went without a goodbye.
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

// ids are all live runners, sorted. mu is held.
func (m *Membership) ids() []string {
	ids := []string{m.o.ID}
	for id := range m.peers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
