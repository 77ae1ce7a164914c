//go:build unix

package processes_test

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

var (
	soakTurns = flag.Int("soak.turns", 20, "how many prompts TestSoak sends to its one session")
	soakSeed  = flag.Uint64("soak.seed", 0, "seed of TestSoak, printed by every run; 0 chooses one")
)

// killedEvery is the number of turns from one killed runner to the next.
const killedEvery = 20

// soak is one long session, with its model and its runners.
type soak struct {
	*world
	model  *soakModel
	random *rand.Rand
	next   func() (client.Item, error, bool) // returns the next event or update of the session
	giveUp func()

	mu      sync.Mutex
	runners map[string]*command // all that were ever started
	missing int                 // number of killed runners that are not replaced yet
	kills   map[string]int      // by the kind of the request that the runner was waiting for
}

// TestSoak sends prompt after prompt to one session whose model has a window of 8,000 tokens, and kills a runner every
// twenty turns, in the middle of a request for a reply or a summary. It checks that no run fails, that no request
// exceeds the window or has a conversation that vendors reject, and that the text of the third turn is in the last
// summary and in the last request.
func TestSoak(t *testing.T) {
	t.Parallel()
	if *soakSeed == 0 {
		*soakSeed = uint64(time.Now().UnixNano())
	}
	t.Logf("-soak.seed %d", *soakSeed)
	s := newSoak(t)
	needle := fmt.Sprintf("needle %d of turn 3", s.random.Uint32())
	began := time.Now()
	for n := 1; n <= *soakTurns; n++ {
		s.turn(n, needle)
	}
	t.Logf("%d turns in %s", *soakTurns, time.Since(began).Round(time.Second))
	s.check(needle)
}

func newSoak(t *testing.T) *soak {
	random := rand.New(rand.NewPCG(*soakSeed, 12))
	s := &soak{
		world: newWorldOn(t, newNATSServer(t).url(), streams.Options{}), model: newSoakModel(t, random), random: random,
		runners: map[string]*command{}, kills: map[string]int{},
	}
	s.model.kill = s.kill
	s.write("file", strings.Repeat("content ", 300))
	s.toolworker("w1", nil)
	s.startRunner()
	s.startRunner()
	ctx, cancel := context.WithCancel(t.Context())
	s.giveUp = cancel
	next, stop := iter.Pull2(bustest.Client(t, s.conn).Session("s1").Watch(ctx, 1))
	t.Cleanup(stop)
	s.next = next
	return s
}

// startRunner starts one more runner, with the default settings except the takeover time.
func (s *soak) startRunner() {
	id := fmt.Sprint("r", len(s.runners)+1)
	c := s.start(id, "runner", nil, "--model", "lab/narrow", "--models", s.model.catalogue(s.t, id), "--http",
		"127.0.0.1:0", "--log-json", "--partitions", "8", "--takeover", inbox.DefaultTakeover.String(), "--retry-delay",
		"50ms")
	s.mu.Lock()
	s.runners[id] = c
	s.mu.Unlock()
	c.awaitReady()
}

// kill kills a runner while the model processes its request.
func (s *soak) kill(id, doing string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kills[doing]++
	if err := s.runners[id].Kill(); err != nil {
		s.t.Error(err)
	}
	s.missing++
}

// replaceTheKilled starts a runner for each killed one.
func (s *soak) replaceTheKilled() {
	s.mu.Lock()
	missing := s.missing
	s.missing = 0
	s.mu.Unlock()
	for range missing {
		s.startRunner()
	}
}

// turn sends a prompt and returns once its run has ended. In every twentieth turn it sets a trap for a runner, which
// may be caught in a later turn.
func (s *soak) turn(n int, needle string) {
	s.t.Helper()
	s.replaceTheKilled()
	text := fmt.Sprintf("turn %d %s", n, strings.Repeat("word ", 20+s.random.IntN(200)))
	switch {
	case n == 3:
		text += "\n" + needle
	case n%5 == 0:
		text = "look: " + text
	}
	if n%killedEvery == 0 {
		s.model.set(&soakTrap{nth: 1 + s.random.IntN(4), middle: s.random.IntN(2) == 0})
	}
	s.publish("s1", schemas.CommandPrompt, fmt.Sprint("turn-", n), text)
	late := time.AfterFunc(system.Deadline, s.giveUp)
	defer late.Stop()
	for {
		item, err, ok := s.next()
		if err != nil || !ok {
			s.t.Fatalf("turn %d did not end: %v", n, err)
		}
		if item.Event == nil {
			continue
		}
		end, ended := item.Event.Data.(*schemas.AgentEnd)
		if !ended {
			continue
		}
		if end.TerminationReason != schemas.EndNoToolCalls {
			s.t.Fatalf("turn %d ended with %+v", n, end)
		}
		return
	}
}

// check checks that every prompt has had exactly one run, that the early text is known, and that no request was too
// long or had a conversation that vendors reject.
func (s *soak) check(needle string) {
	s.t.Helper()
	s.empty(schemas.StreamCommands)
	s.empty(schemas.StreamTools)
	system.Verify(s.t, s.store, "s1")
	log := system.LogOf(s.t, s.store, "s1")
	said := system.Said(log)
	if len(said) != *soakTurns {
		s.t.Errorf("%d prompts in the log, want %d", len(said), *soakTurns)
	}
	for i, text := range said {
		if !strings.HasPrefix(strings.TrimPrefix(text, "look: "), fmt.Sprintf("turn %d ", i+1)) {
			s.t.Fatalf("prompt %d is %q", i+1, text)
		}
	}
	var last *schemas.CompactionEnd
	done := 0
	for _, end := range system.DataOf[*schemas.CompactionEnd](log) {
		if end.ErrorMessage != "" || end.Aborted || end.Reason != schemas.CompactThreshold {
			s.t.Errorf("compaction: %+v", end)
			continue
		}
		last = end
		done++
	}
	m := s.model
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case last == nil:
		s.t.Fatal("the session was never compacted")
	case !strings.Contains(last.Summary, needle):
		s.t.Errorf("after %d compactions the summary is %q", done, last.Summary)
	case !strings.Contains(m.shown, needle):
		s.t.Errorf("the last request does not have the needle: %s", m.shown)
	}
	if m.overflows > 0 || len(m.illegal) > 0 {
		s.t.Errorf("%d requests were too long; vendors would reject these: %q", m.overflows, m.illegal)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	killed := 0
	for _, n := range s.kills {
		killed += n
	}
	if killed < *soakTurns/killedEvery-1 {
		s.t.Errorf("%d runners were killed in %d turns", killed, *soakTurns)
	}
	s.t.Logf("%d events; %d runners killed, %v, %d runs resumed; %d compactions by %d requests, %d replies, the longest "+
		"request %d tokens, %d overflows", len(log), killed, s.kills, len(system.DataOf[*schemas.RunResumed](log)), done,
		m.summaries, m.turns, m.most, m.overflows)
}
