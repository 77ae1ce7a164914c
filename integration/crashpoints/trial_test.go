package crashpoints_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// trial is one run of a scenario in a new session, with the counts of its model and its tools. The fields above mu do
// not change during the trial.
type trial struct {
	scenario *scenario
	session  string
	model    driver.Model
	ctx      context.Context
	conn     *bus.Conn // direct, not through a gateway
	store    *eventstore.Store
	stage    *stage

	held    *signal // hold blocks a model or a tool
	open    *signal // hold returns
	atWork  *signal // all sub-agents that holdChild blocks have started
	faulted *signal // a fault has happened
	stopped chan *process

	mu       sync.Mutex
	faults   []fault // of the processes that start later, in order
	points   []point // that the first process has passed
	began    map[string]*signal
	executed map[string]int    // by the model's id of the call
	asked    map[place]int     // number of model calls
	late     int               // number of model calls by processes that were frozen before
	first    map[string]uint64 // by tool: the lowest delivery count of a call that a worker has received
	sent     []string          // ids of the commands
	crashes  int
	watching map[string]*witness // by session
	waiting  map[string]bool     // prompts of the sub-agents that holdChild blocks
}

// signal is something that happens once.
type signal struct {
	once sync.Once
	done chan struct{}
}

func newSignal() *signal { return &signal{done: make(chan struct{})} }

func (s *signal) fire() { s.once.Do(func() { close(s.done) }) }

func newTrial(ctx context.Context, l *stage, s *scenario, session string, faults []fault) *trial {
	tr := &trial{
		scenario: s, session: session, model: s.model(), ctx: ctx, conn: l.conn, store: l.store, stage: l,
		held: newSignal(), open: newSignal(), atWork: newSignal(), faulted: newSignal(),
		stopped: make(chan *process, 1+len(faults)),
		faults:  faults, asked: map[place]int{}, first: map[string]uint64{}, began: map[string]*signal{},
		executed: map[string]int{}, watching: map[string]*witness{}, waiting: map[string]bool{},
	}
	return tr
}

// witness returns the witness of the trial's session or of a sub-agent's.
func (tr *trial) witness(session string) *witness {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.watching[session] == nil {
		tr.watching[session] = newWitness(tr, session)
	}
	return tr.watching[session]
}

// witnesses returns all witnesses, sorted by session.
func (tr *trial) witnesses() (all []*witness) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, session := range slices.Sorted(maps.Keys(tr.watching)) {
		all = append(all, tr.watching[session])
	}
	return all
}

// nextFault returns the fault of the next process.
func (tr *trial) nextFault() (f fault) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.faults) > 0 {
		f, tr.faults = tr.faults[0], tr.faults[1:]
	}
	return f
}

// passed records a point of the first process.
func (tr *trial) passed(p point) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.points = append(tr.points, p)
}

// begin counts an execution of a tool.
func (tr *trial) begin(call string) {
	tr.mu.Lock()
	tr.executed[call]++
	tr.mu.Unlock()
	tr.call(call).fire()
}

// received records a call that has reached a worker.
func (tr *trial) received(d delivery) {
	if d.tool == "" || d.session != tr.session {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if first := tr.first[d.tool]; first == 0 || d.count < first {
		tr.first[d.tool] = d.count
	}
}

// missed reports whether the first delivery of a tool's call has reached no worker.
func (tr *trial) missed(tool string) bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.first[tool] > 1
}

func (tr *trial) call(id string) *signal {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.began[id] == nil {
		tr.began[id] = newSignal()
	}
	return tr.began[id]
}

// ask counts a model call.
func (tr *trial) ask(at place, late bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.asked[at]++
	if late {
		tr.late++
	}
}

// crash counts a fault that has happened.
func (tr *trial) crash() {
	tr.faulted.fire()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.crashes++
}

func (tr *trial) crashed() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.crashes
}

func (tr *trial) askedLate() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.late
}

// executions returns how often each call was started.
func (tr *trial) executions() map[string]int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return maps.Clone(tr.executed)
}

// The methods below are the actions of scenarios. Each fails the test if it does not succeed.

// wait waits for a signal.
func (tr *trial) wait(t *testing.T, what string, s *signal) {
	t.Helper()
	select {
	case <-s.done:
	case <-tr.ctx.Done():
		t.Fatalf("did not happen: %s; the log is %s", what, tr.describe(t))
	}
}

// send stores a command in the session's inbox.
func (tr *trial) send(t *testing.T, id string, data schemas.CommandData) {
	t.Helper()
	bustest.Command(t, bustest.Client(t, tr.conn).Session(tr.session), data, client.WithID(id))
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.sent = append(tr.sent, id)
}

// until waits until ok returns true for the session's state.
func (tr *trial) until(t *testing.T, what string, ok func(s *loop.State) bool) {
	t.Helper()
	state := &loop.State{Session: tr.session}
	for item, err := range bustest.Client(t, tr.conn).Session(tr.session).Watch(tr.ctx, 1) {
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err == nil && item.Event == nil {
			continue
		}
		if err == nil {
			err = state.Apply(*item.Event)
		}
		if err != nil {
			t.Fatalf("waiting until %s: %v; the log is %s", what, err, tr.describe(t))
		}
		if ok(state) {
			return
		}
	}
	t.Fatalf("did not happen: %s; the log is %s", what, tr.describe(t))
}

// settle waits until all commands have an outcome and all queues are empty.
func (tr *trial) settle(t *testing.T) {
	t.Helper()
	tr.until(t, "the session is idle and has all commands", func(s *loop.State) bool {
		for _, id := range tr.sent {
			if !s.Known.Has(id) {
				return false
			}
		}
		_, resting := loop.Next(s).(loop.Rest)
		return resting
	})
	tr.open.fire() // for a tool whose cancellation was lost
	tr.drained(t)
}

// drained waits until the streams of commands and of calls are empty.
func (tr *trial) drained(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for _, stream := range []string{schemas.StreamCommands, schemas.StreamTools} {
		for {
			s, err := tr.conn.JetStream().Stream(tr.ctx, stream)
			if err != nil {
				t.Fatalf("waiting until %s is empty: %v; the log is %s", stream, err, tr.describe(t))
			}
			if s.CachedInfo().State.Msgs == 0 {
				break
			}
			<-tick.C
		}
	}
}
