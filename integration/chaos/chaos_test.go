//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/loopbus/loopbus/integration/chaos/internal/program"
	"github.com/loopbus/loopbus/integration/internal/history"
	"github.com/loopbus/loopbus/schemas"
)

// all is the number of processes in TestChaos.
var all = size{program.Server: 3, program.Runner: 3, program.Worker: 3, program.Counter: 2, program.Client: 5}

const (
	sessions   = 50
	shortRound = 5 * time.Second
	longRound  = 45 * time.Second
	// pace is the average time between two commands of a session.
	pace = 1500 * time.Millisecond
	// maxReported limits the violations that are reported. The logs of all of them are written.
	maxReported = 40
)

// slowScript makes each reply of the default model stream for some seconds.
const slowScript = `{"chunkSize": 8, "chunkDelayMs": 80, "scripts": [{"loop": true, "responses": [
		{"text": "This reply has no meaning. It is long enough to stream for a while, so that faults can happen, ` +
	`and some of them will."}]}]}`

// planOf returns how often and how long processes fail. The short round injects no faults into toolworkers without a
// counter, because some seconds pass until their loss is noticed.
func planOf(length time.Duration) program.Plan {
	gap := map[program.Role]time.Duration{
		program.Server: 6 * time.Second, program.Runner: 6 * time.Second, program.Counter: 8 * time.Second,
		program.Client: 12 * time.Second,
	}
	longest := 4 * time.Second
	if length > shortRound {
		gap[program.Worker], longest = 20*time.Second, program.Longest
	}
	return program.Plan{Length: length, Longest: longest, Count: all, Gap: gap}
}

// TestChaos runs one round after the other for -chaos.duration, each with its own seed and its own processes. Repeat a
// failed seed with -chaos.seed.
func TestChaos(t *testing.T) {
	parallel(t)
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	tally := newTally()
	begun := time.Now()
	for n := uint64(0); n == 0 || time.Since(begun) < *chaosDuration; n++ {
		length := shortRound
		if *chaosDuration > 0 {
			length = longRound
		}
		t.Run(fmt.Sprintf("seed=%d", seed+n), func(t *testing.T) { round(t, seed+n, length, tally) })
		if t.Failed() {
			t.Logf("repeat with: go test ./integration/chaos -run TestChaos -chaos.duration %s -chaos.seed %d",
				*chaosDuration, seed+n)
			break
		}
	}
	tally.print(os.Stdout, time.Since(begun))
}

// round runs one seed: it sends the programs and injects the faults, waits for rest, and checks.
func round(t *testing.T, seed uint64, length time.Duration, tally *tally) {
	begun := time.Now()
	w := newWorld(t, all, slowScript)
	t.Logf("ready after %s", time.Since(begun).Round(time.Millisecond))
	ctx, longestPause := testContext(t), watchPauses()
	defer longestPause()
	faults := program.Faults(seed, planOf(length))
	chaos, heal := context.WithTimeout(ctx, length)
	defer heal()
	bound, cancel := context.WithTimeout(ctx, length+2*deadline)
	defer cancel()
	var g errgroup.Group
	for i := range sessions {
		c, session := w.clients[i%len(w.clients)], sessionName(i)
		g.Go(func() error { return c.play(bound, chaos, session, program.Session(seed, session, length, pace)) })
	}
	deleted := w.watchDeletable()
	g.Go(func() error { return deleted.run(bound, chaos, length) })
	injected, err := w.inject(chaos, faults)
	w.must(err)
	w.must(g.Wait())
	healed := time.Now()
	t.Logf("all faults are over; they were %s", describe(faults))
	left := w.awaitRest(ctx)
	t.Logf("at rest after %s", time.Since(healed).Round(time.Millisecond))
	if len(left) == 0 {
		w.resolveLost(ctx)
		w.sendLast(bound)
		left = w.awaitRest(ctx)
	}
	t.Logf("longest pause of the machine: %s", longestPause())
	if len(left) > 0 {
		w.explain(ctx)
	}
	for _, l := range left {
		t.Errorf("seed %d: not at rest: %s", seed, l)
	}
	h, violations := w.audit(ctx, deleted)
	tally.add(injected, h, violations, time.Since(healed))
	w.report(seed, h, violations)
}

// watchPauses measures the longest time for which this process was not scheduled; stop returns it. A machine that
// pauses for seconds breaks all timeouts.
func watchPauses() (stop func() time.Duration) {
	const interval = 50 * time.Millisecond
	stopped, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		var most time.Duration
		for last := time.Now(); ; {
			select {
			case <-stopped:
				longest <- most
				return
			case <-tick.C:
				most, last = max(most, time.Since(last)-interval), time.Now()
			}
		}
	}()
	return sync.OnceValue(func() time.Duration {
		close(stopped)
		return (<-longest).Round(time.Millisecond)
	})
}

// describe lists the schedule of faults, one per line.
func describe(faults []program.Fault) string {
	var b strings.Builder
	for _, f := range faults {
		fmt.Fprintf(&b, "\n%8s for %8s: %s %d %s", f.At.Round(time.Millisecond), f.For.Round(time.Millisecond), f.Target.Role,
			f.Target.Number+1, f.Kind)
	}
	return b.String()
}

func sessionName(i int) string { return fmt.Sprintf("s%02d", i) }

// inject injects faults until ctx ends. When all of them are undone, it returns those that it had time to inject.
func (w *world) inject(ctx context.Context, faults []program.Fault) (injected []program.Fault, err error) {
	begun := time.Now()
	var mu sync.Mutex // guards injected
	var g errgroup.Group
	for _, f := range faults {
		pause := time.NewTimer(f.At - time.Since(begun))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			err = g.Wait()
			return injected, err
		}
		g.Go(func() error {
			done, err := w.suffer(ctx, f)
			if done {
				mu.Lock()
				defer mu.Unlock()
				injected = append(injected, f)
			}
			return err
		})
	}
	<-ctx.Done()
	err = g.Wait()
	return injected, err
}

func (w *world) suffer(ctx context.Context, f program.Fault) (bool, error) {
	if f.Target.Role != program.Client {
		return w.slots[f.Target.Role][f.Target.Number].suffer(ctx, f)
	}
	over, cancel := context.WithTimeout(ctx, f.For)
	defer cancel()
	disturb(over, w.clients[f.Target.Number].links, f.Kind)
	return true, nil
}

// sendLast sends a prompt to every session, sub-agents included, whose run ends normally: after it no input may be
// queued.
func (w *world) sendLast(ctx context.Context) {
	w.t.Helper()
	var g errgroup.Group
	g.SetLimit(sessions)
	i := 0
	for info, err := range w.store.Sessions(ctx) {
		w.must(err)
		c, session := w.clients[i%len(w.clients)], info.Session
		i++
		g.Go(func() error {
			id := session + "-last"
			return c.send(ctx, session, program.Step{ID: id, Data: &schemas.Prompt{Input: schemas.Input{Text: "say " + id}}})
		})
	}
	w.must(g.Wait())
}

// report fails the test with the violations and logs the exits of processes that no fault explains. It writes the logs
// of the sessions concerned to the directory with the output of the processes (-artifacts).
func (w *world) report(seed uint64, h history.History, violations []history.Violation) {
	w.t.Helper()
	for _, v := range violations {
		if log := h.Logs[v.Session]; log != nil {
			w.writeLog(v.Session, log)
		}
	}
	for _, role := range program.Roles() {
		for _, s := range w.slots[role] {
			for _, note := range s.notes {
				w.t.Log(note)
			}
		}
	}
	for i, v := range violations {
		if i == maxReported {
			w.t.Errorf("%d more violations", len(violations)-maxReported)
			break
		}
		w.t.Errorf("seed %d: %s", seed, v)
	}
}
