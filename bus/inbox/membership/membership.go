package membership

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// Options configure [New]. ID, NATS and JetStream are required.
type Options struct {
	// ID names this runner: a single subject token, used by nobody else.
	ID        string
	NATS      *nats.Conn
	JetStream jetstream.JetStream
	Subjects  schemas.Subjects
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
	twice   sync.Once     // told that another process has the id
	renewed atomic.Int64  // when the entry was renewed last, in nanoseconds since the epoch

	mu    sync.Mutex
	left  bool
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
	return &Membership{o: o, started: time.Now().UTC(), changed: make(chan struct{}, 1), peers: map[string]*peer{}}
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
		m.heartbeat()
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

// heartbeat publishes a heartbeat, unless the runner has left.
func (m *Membership) heartbeat() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.left {
		m.publish(heartbeat{ID: m.o.ID, Started: m.started, Reads: m.reads})
	}
}

func (m *Membership) publish(h heartbeat) {
	data, err := json.Marshal(h)
	if err == nil {
		err = m.o.NATS.Publish(m.o.Subjects.Heartbeat(), data)
	}
	if err != nil {
		m.o.Logger.Debug("heartbeat not published", "err", err)
	}
}

// receive takes in a heartbeat.
func (m *Membership) receive(msg *nats.Msg) {
	var h heartbeat
	if err := json.Unmarshal(msg.Data, &h); err != nil || schemas.CheckToken("runner", h.ID) != nil {
		m.o.Logger.Warn("heartbeat not understood", "err", err)
		return
	}
	if h.ID == m.o.ID {
		m.receiveOwn(h)
		return
	}
	switch {
	case h.Left:
		m.drop(h.ID, false, "it has left")
	case h.Gone:
		m.drop(h.ID, true, "its connection is closed, says "+h.By)
	default:
		m.add(h)
	}
	if h.Join {
		m.heartbeat()
	}
}

// receiveOwn takes in what is said of this runner: that it is gone, which is a false alarm, or what another process
// says that has been given the same id.
func (m *Membership) receiveOwn(h heartbeat) {
	switch {
	case h.Gone:
		m.heartbeat()
	case !h.Left && !h.Started.Equal(m.started):
		m.twice.Do(func() {
			m.o.Logger.Error("another process has the same runner id: both will take the inbox from each other", "started",
				h.Started)
		})
	}
}

func (m *Membership) add(h heartbeat) {
	m.mu.Lock()
	p := m.peers[h.ID]
	if p == nil {
		p = &peer{}
		m.peers[h.ID] = p
		m.o.Logger.Info("runner is live", "peer", h.ID)
		defer m.wake()
	} else if !slices.Equal(p.reads, h.Reads) {
		defer m.wake()
	}
	p.lastSeen, p.reads = time.Now(), h.Reads
	m.mu.Unlock()
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
		m.wake()
	}
}

func (m *Membership) wake() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// Leave says goodbye, so that the others go on at once, and takes the runner's entry back. After it the runner is not
// heard of any more.
func (m *Membership) Leave(ctx context.Context) error {
	m.mu.Lock()
	m.left = true
	m.publish(heartbeat{ID: m.o.ID, Left: true})
	m.mu.Unlock()
	return m.removeEntry(ctx)
}
