package crashpoints_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// crashCase is a scenario with its faults.
type crashCase struct {
	scenario *scenario
	faults   []fault
}

func (c crashCase) name() string {
	parts := []any{c.scenario.name + "/"}
	for _, f := range c.faults {
		parts = append(parts, f)
	}
	return name(parts...)
}

// TestEveryCrashPoint tries one fault per run.
func TestEveryCrashPoint(t *testing.T) {
	t.Parallel()
	chosen := chosenScenarios()
	base := undisturbedOnce(t, chosen)
	cases := everyFault(base, chosen...)
	t.Logf("%d faults at the points of %d scenarios", len(cases), len(chosen))
	if !*all {
		cases = draw(random(t), cases, *sample)
	}
	tryAll(t, stageOptions{}, cases, func(c crashCase, tr *trial, got outcome) []string {
		wrongs := tr.compare(base[c.scenario].outcome, got)
		if f := c.faults[0]; f.at.kind == pointAppend && (f.mode == cutBefore || f.mode == cutAfter) {
			wrongs = append(wrongs, interruptions(got.log)...)
		}
		return wrongs
	})
}

// TestTwoCrashesInARow also crashes the runner that has taken over.
func TestTwoCrashesInARow(t *testing.T) {
	t.Parallel()
	chosen := chosenScenarios()
	base := undisturbedOnce(t, chosen)
	r := random(t)
	var cases []crashCase
	for range *pairs {
		s := chosen[r.IntN(len(chosen))]
		first, second := anyFault(r, base[s].points), anyFault(r, base[s].points)
		first.mode, second.mode = killBefore, killBefore
		second.at.n = 1 + r.IntN(second.at.n) // counted from the takeover: late points are seldom reached
		cases = append(cases, crashCase{s, []fault{first, second}})
	}
	tryAll(t, stageOptions{}, cases, func(c crashCase, tr *trial, got outcome) []string {
		return tr.compare(base[c.scenario].outcome, got)
	})
}

// chosenScenarios returns the scenarios that -crashpoints.only selects.
func chosenScenarios() (chosen []*scenario) {
	for _, s := range scenarios {
		if strings.Contains(s.name, *only) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// baseline is the outcome of a scenario without faults, and its points.
type baseline struct {
	outcome outcome
	points  []point
}

// undisturbed runs each scenario once without a fault, on several stages.
func undisturbed(t *testing.T, scenarios ...*scenario) map[*scenario]baseline {
	base := make(map[*scenario]baseline)
	var mu sync.Mutex
	onStages(t, stageOptions{}, scenarios, func(s *scenario, stageOf func() *stage) (usable bool) {
		return t.Run("undisturbed/"+name(s.name), func(t *testing.T) {
			tr, o := stageOf().play(t, s)
			for _, kind := range s.about {
				if !slices.ContainsFunc(o.log, func(e schemas.Event) bool { return e.Type() == kind }) {
					t.Errorf("%s has no %s:%s", s.name, kind, tr.describe(t))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			base[s] = baseline{o, tr.points}
		})
	})
	if t.Failed() {
		t.Fatal("scenarios fail without faults")
	}
	return base
}

// undisturbedScenarios returns the baselines of the chosen scenarios. The first call runs the scenarios, the others
// return the same result.
var undisturbedScenarios struct {
	sync.Once
	base map[*scenario]baseline
}

func undisturbedOnce(t *testing.T, chosen []*scenario) map[*scenario]baseline {
	undisturbedScenarios.Do(func() { undisturbedScenarios.base = undisturbed(t, chosen...) })
	if undisturbedScenarios.base == nil {
		t.Fatal("scenarios fail without faults; the failure of another test says how")
	}
	return undisturbedScenarios.base
}

// everyFault returns one case for each fault at each point.
func everyFault(base map[*scenario]baseline, scenarios ...*scenario) (cases []crashCase) {
	for _, s := range scenarios {
		for _, p := range base[s].points {
			for _, f := range faultsAt(p) {
				cases = append(cases, crashCase{s, []fault{f}})
			}
		}
	}
	return cases
}

// maxTries is how often a case is tried when the machine stalls, or its fault does not happen.
const maxTries = 5

// A judge returns what is wrong with the outcome of a case.
type judge func(c crashCase, tr *trial, got outcome) []string

// tryAll runs the cases on several stages. Few of them may have faults at points that only the undisturbed run has.
func tryAll(parent *testing.T, o stageOptions, cases []crashCase, judge judge) {
	var missed atomic.Int64
	onStages(parent, o, cases, func(c crashCase, stageOf func() *stage) (usable bool) {
		return parent.Run(c.name(), func(t *testing.T) {
			if !stageOf().try(t, c, judge) {
				missed.Add(1)
			}
		})
	})
	if n := int(missed.Load()); n > 1+len(cases)/20 {
		parent.Errorf("%d of %d faults did not happen", n, len(cases))
	}
}

// onStages calls a function for each of many items on several stages, and returns when all calls have returned. It does
// not use a stage again after a failure.
func onStages[T any](parent *testing.T, o stageOptions, many []T, do func(one T, on func() *stage) (usable bool)) {
	queue := make(chan T)
	var running sync.WaitGroup
	for range min(max(o.times, 1)**stages, len(many)) {
		running.Go(func() {
			beside := &apart{TB: parent}
			defer beside.clean()
			var l *stage
			for one := range queue {
				ok := do(one, func() *stage {
					if l == nil {
						l = newStage(beside, o)
					}
					return l
				})
				if !ok {
					l = nil
				}
			}
		})
	}
	for _, one := range many {
		queue <- one
	}
	close(queue)
	running.Wait()
}

// apart is a test that cleans up its stages in parallel: closing one takes a second or two.
type apart struct {
	testing.TB
	cleanups []func()
}

// Cleanup implements [testing.TB].
func (a *apart) Cleanup(f func()) { a.cleanups = append(a.cleanups, f) }

func (a *apart) clean() {
	for _, f := range slices.Backward(a.cleanups) {
		f()
	}
}

// try runs a case. If the machine stalled in the meantime, or the run ended without the point of the fault, it runs the
// case again; the test fails only if every run fails. It returns false if a single fault has never happened.
func (l *stage) try(t *testing.T, c crashCase, judge judge) (happened bool) {
	for n := 1; ; n++ {
		watch := watchStall()
		tr, got := l.play(t, c.scenario, c.faults...)
		lost := watch.end()
		wrongs := judge(c, tr, got)
		if len(wrongs) > 0 && lost > maxStall && n < maxTries {
			t.Logf("trying again: the machine stalled for %s", lost)
			continue
		}
		happened = tr.crashed() > 0 || len(c.faults) > 1
		if !happened && n < maxTries && !t.Failed() {
			t.Logf("trying again: the run ended without %s", c.faults[0].at)
			continue
		}
		for _, wrong := range wrongs {
			t.Error(wrong)
		}
		if len(wrongs) > 0 {
			t.Logf("the machine stalled for %s; the log of %s:%s", lost, tr.session, tr.describe(t))
		}
		return happened
	}
}

// random is seeded with -crashpoints.seed.
func random(t *testing.T) *rand.Rand {
	n := *seed
	if n == 0 {
		n = time.Now().UnixNano()
	}
	t.Logf("-crashpoints.seed %d", n)
	return rand.New(rand.NewPCG(uint64(n), 0))
}

// draw returns n of the cases, in random order.
func draw(r *rand.Rand, cases []crashCase, n int) []crashCase {
	r.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
	return cases[:min(n, len(cases))]
}

func anyFault(r *rand.Rand, points []point) fault {
	at := points[r.IntN(len(points))]
	faults := faultsAt(at)
	return faults[r.IntN(len(faults))]
}
