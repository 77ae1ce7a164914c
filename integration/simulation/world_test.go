package simulation_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/integration/internal/history"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// world is the simulation of one seed: the servers, the runners and the clients.
type world struct {
	*chance
	ctx     context.Context
	store   *eventstore.Memory
	queue   *queue
	window  int // maximum number of calls of one tool that a session has in flight
	running sync.WaitGroup

	mu         sync.Mutex
	healed     bool // faults are over
	sessions   map[string]*session
	jobs       map[string]*job      // unsettled calls
	seenCalls  map[string]time.Time // when a call was stored
	timers     map[string]*timer
	members    members
	commands   []history.Command
	executions map[string]int
	violations []string
	trace      *[]string // all steps; nil unless they are logged
	begun      time.Time
}

// session is the stored data of one session.
type session struct {
	state  loop.State
	writes []write
}

// write is the source of a stored event and the time at which it was stored.
type write struct {
	source string
	at     time.Time
}

func newWorld(seed uint64, trace *[]string) (w *world, end context.CancelFunc) {
	w = &world{
		chance: newChance(seed), store: eventstore.NewMemory(), sessions: map[string]*session{}, jobs: map[string]*job{},
		seenCalls: map[string]time.Time{}, timers: map[string]*timer{}, executions: map[string]int{}, trace: trace,
		begun:   time.Now(),
		members: members{entries: map[string]time.Time{}},
	}
	w.window = 1 + w.draw("window").IntN(3)
	w.ctx, end = context.WithCancel(context.Background())
	w.store.OnCommit = w.lose
	w.queue = newQueue(w)
	return w, end
}

// faulty reports whether faults are still injected.
func (w *world) faulty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.healed
}

func (w *world) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.healed = true
	w.tell("healed")
}

// tell records a step. The caller holds the lock.
func (w *world) tell(format string, args ...any) {
	if w.trace != nil {
		*w.trace = append(*w.trace, fmt.Sprintf("%10.6f ", time.Since(w.begun).Seconds())+fmt.Sprintf(format, args...))
	}
}

// note is tell for callers without the lock.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(format, args...)
}

// fail records a violation. The caller holds the lock.
func (w *world) fail(text string) {
	w.tell("VIOLATION: %s", text)
	w.violations = append(w.violations, fmt.Sprintf("at %.6f s: %s", time.Since(w.begun).Seconds(), text))
}

// violated is fail for callers without the lock.
func (w *world) violated(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail(fmt.Sprintf(format, args...))
}

// stored applies a stored event to the state of its session.
func (w *world) stored(e schemas.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.session(e.Session)
	if err := s.state.Apply(e); err != nil {
		w.fail(err.Error())
	}
	s.writes = append(s.writes, write{e.Source, time.Now()})
	w.tell("%s: %s %s", e.Source, e.ID(), e.Type())
}

// session returns a session's state. The caller holds the lock.
func (w *world) session(id string) *session {
	s := w.sessions[id]
	if s == nil {
		s = &session{state: loop.State{Session: id}}
		w.sessions[id] = s
	}
	return s
}

// stateOf returns the state of a session at the end of its log. The caller must not modify it.
func (w *world) stateOf(id string) loop.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.session(id).state
}

// writtenBehind reports whether another writer has extended a session after the given sequence, and when it first did.
func (w *world) writtenBehind(id string, head uint64, source string) (bool, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wr := range w.session(id).writes[head:] {
		if wr.source != source {
			return true, wr.at
		}
	}
	return false, time.Time{}
}

// setTimer sends a timer to the session's inbox at the given time, or up to half a second later.
func (w *world) setTimer(session string, at time.Time, due schemas.Timer) {
	cmd := schemas.Command{
		ID: fmt.Sprintf("timer-%s-%s-%d", due.Name, due.RunID, at.UnixMilli()), Session: session, Data: &due,
	}
	wait := time.Until(at) + w.draw("timer "+session).between(0, 500*time.Millisecond)
	w.dropTimer(session, due.Name)
	w.mu.Lock()
	defer w.mu.Unlock()
	t := new(timer)
	t.Timer = time.AfterFunc(max(wait, 0), func() { w.fire(t, cmd, due.Name) })
	w.timers[session+"/"+due.Name] = t
}

// timer is a timer that is set.
type timer struct{ *time.Timer }

func (w *world) fire(t *timer, cmd schemas.Command, name string) {
	w.record(history.Command{Session: cmd.Session, ID: cmd.ID, Kind: schemas.CommandTimer, Sent: time.Now()})
	w.queue.put(cmd, "")
	w.mu.Lock()
	defer w.mu.Unlock()
	if key := cmd.Session + "/" + name; w.timers[key] == t {
		delete(w.timers, key)
	}
}

func (w *world) dropTimer(session, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.timers[session+"/"+name]; t != nil {
		t.Stop()
		delete(w.timers, session+"/"+name)
	}
}
