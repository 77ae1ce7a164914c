//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/integration/chaos/internal/program"
	"github.com/loopbus/loopbus/schemas"
)

// endlessScript makes the model stream one character per minute for longer than any test, so that sessions stay awake.
func endlessScript() string {
	return `{"scripts": [{"loop": true, "responses": [{"events": [{"type": "start"}, {"type": "text_start"}` +
		strings.Repeat(`, {"delayMs": 60000}, {"type": "text_delta", "delta": "."}`, 60) + `, {"type": "done"}],
	"message": {"content": [{"type": "text", "text": "half"}]}}]}]}`
}

const (
	awakeSessions = 30
	// handoverBound is far more than the promised ten seconds, for busy machines. The promise is checked by reading the
	// table that a quiet machine prints.
	handoverBound = time.Minute
	// settled is how long no session must have changed its runner before the next runner leaves, in the form that
	// measures: moves that balance the shares are not part of a wait. The short form does not need exact times.
	settled, shortlySettled = 3 * time.Second, time.Second
	// roundsPerWorld is small enough that no command is delivered so often that it is dead-lettered.
	roundsPerWorld = 5
)

// leaving is a way in which a runner stops serving.
type leaving struct {
	name  string
	leave func(s *slot) error
	back  func(s *slot) error
}

var leavings = []leaving{
	{"SIGKILL", func(s *slot) error { return s.current(true).Kill() }, (*slot).up},
	{"SIGTERM", func(s *slot) error { return s.current(true).Terminate() }, func(s *slot) error {
		<-s.current(true).Done()
		return s.up()
	}},
	{"SIGSTOP", func(s *slot) error { return s.current(false).Freeze() },
		func(s *slot) error { return s.current(false).Thaw() }},
}

// TestHandover kills, stops or freezes the runner that drives the most sessions, many times, and measures how long each
// of them waits for its next event.
func TestHandover(t *testing.T) {
	parallel(t)
	waits := map[string][]time.Duration{}
	for left := *chaosKills; left > 0; left -= roundsPerWorld {
		t.Run(fmt.Sprintf("%d left", left), func(t *testing.T) { handOver(t, min(left, roundsPerWorld), waits) })
	}
	printHandover(os.Stdout, waits)
}

// handOver makes a runner leave in each way, rounds times, with its own processes. It adds the times to waits.
func handOver(t *testing.T, rounds int, waits map[string][]time.Duration) {
	w := newWorld(t, size{program.Server: 3, program.Runner: 3, program.Client: 1}, endlessScript())
	o := w.watchOwners()
	for i := range awakeSessions {
		session := sessionName(i)
		w.must(w.clients[0].send(testContext(t), session,
			program.Step{ID: "p", Data: &schemas.Prompt{Input: schemas.Input{Text: "go"}}}))
	}
	eventually(t, deadline, "all sessions are awake", func() bool { return o.streaming() == awakeSessions })
	for range rounds {
		for _, l := range leavings {
			waits[l.name] = append(waits[l.name], w.lose(o, l)...)
		}
	}
}

// lose makes one runner leave and returns how long each of its sessions waited.
func (w *world) lose(o *owners, l leaving) []time.Duration {
	w.t.Helper()
	calm := settled
	if *chaosKills == 1 {
		calm = shortlySettled
	}
	eventually(w.t, handoverBound, "no session changes its runner any more", func() bool { return o.calm() > calm })
	victim, mine := w.busiest(o)
	since := time.Now()
	w.must(l.leave(victim))
	eventually(w.t, handoverBound, fmt.Sprintf("%d sessions go on elsewhere after %s", len(mine), l.name), func() bool {
		return !slices.ContainsFunc(o.of(victim.name()), func(session string) bool { return slices.Contains(mine, session) })
	})
	waits := o.since(mine, since)
	eventually(w.t, handoverBound, "all sessions are awake again", func() bool { return o.streaming() == awakeSessions })
	w.must(l.back(victim))
	eventually(w.t, deadline, "all runners are live again", w.live)
	return waits
}

// busiest returns the runner that drives the most sessions, and these sessions.
func (w *world) busiest(o *owners) (victim *slot, mine []string) {
	for _, s := range w.slots[program.Runner] {
		if held := o.of(s.name()); len(held) > len(mine) {
			victim, mine = s, held
		}
	}
	if victim == nil {
		w.t.Fatal("no runner drives a session")
	}
	return victim, mine
}

// live reports whether all running runners are members. Lost runners may still be members for a while.
func (w *world) live() bool {
	ctx, cancel := context.WithTimeout(testContext(w.t), deadline)
	defer cancel()
	ids := w.members(ctx)
	return !slices.ContainsFunc(w.slots[program.Runner], func(s *slot) bool { return !slices.Contains(ids, s.name()) })
}

// owners records from live events which runner has written the newest event of each session.
type owners struct {
	mu     sync.Mutex
	newest map[string]seen
}

// seen is the newest event of a session.
type seen struct {
	runner string
	kind   schemas.EventType
	at     time.Time // when the first event of this runner arrived
}

func (w *world) watchOwners() *owners {
	w.t.Helper()
	o := &owners{newest: map[string]seen{}}
	sub, err := w.conn.NATS().Subscribe(w.conn.Subjects().LiveEvent("*"), o.take)
	w.must(err)
	w.t.Cleanup(func() { _ = sub.Unsubscribe() })
	return o
}

func (o *owners) take(m *nats.Msg) {
	session, _, err := schemas.Subjects{}.ParseLive(m.Subject)
	if err != nil {
		return
	}
	events, err := schemas.SplitLog(session, m.Header, m.Data)
	if err != nil {
		return // not an event of a runner
	}
	last := events[len(events)-1]
	e := seen{kind: schemas.EventType(last.Name), at: time.Now(),
		runner: last.Source[strings.LastIndex(last.Source, "/")+1:]}
	o.mu.Lock()
	defer o.mu.Unlock()
	if before := o.newest[session]; before.runner == e.runner {
		e.at = before.at
	}
	o.newest[session] = e
}

// streaming returns how many sessions stream a message.
func (o *owners) streaming() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.newest {
		if e.kind == schemas.EventMessageStart {
			n++
		}
	}
	return n
}

// of returns the sessions of a runner.
func (o *owners) of(runner string) (sessions []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for session, e := range o.newest {
		if e.runner == runner {
			sessions = append(sessions, session)
		}
	}
	return sessions
}

// calm returns how long ago any session last changed its runner.
func (o *owners) calm() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	var last time.Time
	for _, e := range o.newest {
		if e.at.After(last) {
			last = e.at
		}
	}
	return time.Since(last)
}

// since returns for each session how long after moment another runner wrote its first event.
func (o *owners) since(sessions []string, moment time.Time) (waits []time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, session := range sessions {
		if d := o.newest[session].at.Sub(moment); d > 0 {
			waits = append(waits, d)
		}
	}
	return waits
}

func printHandover(w io.Writer, waits map[string][]time.Duration) {
	fmt.Fprintf(w, "\n| the runner gets | times | sessions | median | p99 | longest |\n|---|---|---|---|---|---|\n")
	for _, l := range leavings {
		all := slices.Sorted(slices.Values(waits[l.name]))
		fmt.Fprintf(w, "| %s | %d | %d | %s | %s | %s |\n", l.name, *chaosKills, len(all), quantile(all, 0.5),
			quantile(all, 0.99), quantile(all, 1))
	}
}

// quantile returns the smallest value that at least this share of the values do not exceed.
func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	at := int(math.Ceil(share*float64(len(sorted)))) - 1
	return sorted[max(at, 0)].Round(10 * time.Millisecond)
}

// name returns the id of the current process.
func (s *slot) name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.command(s.generation).Name
}
