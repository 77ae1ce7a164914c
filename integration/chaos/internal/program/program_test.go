package program_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/integration/chaos/internal/program"
	"github.com/loopbus/loopbus/schemas"
)

var plan = program.Plan{
	Length: time.Minute,
	Count:  map[program.Role]int{program.Server: 3, program.Runner: 3, program.Client: 2},
	Gap: map[program.Role]time.Duration{
		program.Server: 5 * time.Second, program.Runner: 5 * time.Second, program.Client: 5 * time.Second,
	},
}

func TestSameSeedGivesSameProgramAndFaults(t *testing.T) {
	same := func() ([]program.Step, []program.Fault) {
		return program.Session(7, "s1", time.Minute, time.Second), program.Faults(7, plan)
	}
	steps, faults := same()
	steps2, faults2 := same()
	if d := cmp.Diff(steps, steps2); d != "" {
		t.Errorf("two programs of one seed differ: %s", d)
	}
	if d := cmp.Diff(faults, faults2); d != "" {
		t.Errorf("two schedules of one seed differ: %s", d)
	}
	if d := cmp.Diff(steps, program.Session(8, "s1", time.Minute, time.Second)); d == "" {
		t.Error("two seeds have the same program")
	}
	if d := cmp.Diff(faults, program.Faults(8, plan)); d == "" {
		t.Error("two seeds have the same faults")
	}
}

func TestProgramHasAllKindsOfSteps(t *testing.T) {
	kinds, again := map[schemas.CommandKind]int{}, 0
	ids := map[string]bool{}
	for _, step := range program.Session(1, "s1", 10*time.Minute, time.Second) {
		kinds[step.Data.CommandKind()]++
		if step.Again {
			again++
		} else if ids[step.ID] {
			t.Errorf("id %s is used for two commands", step.ID)
		}
		ids[step.ID] = true
	}
	for _, kind := range []schemas.CommandKind{schemas.CommandPrompt, schemas.CommandSteer, schemas.CommandFollowUp,
		schemas.CommandAbort, schemas.CommandClearQueue, schemas.CommandCancelInput, schemas.CommandSetModel} {
		if kinds[kind] == 0 {
			t.Errorf("the program has no %s", kind)
		}
	}
	if again == 0 {
		t.Error("the program repeats no command")
	}
}

func TestFaultsOfAProcessDoNotOverlap(t *testing.T) {
	for seed := range uint64(50) {
		until := map[program.Target]time.Duration{}
		var at time.Duration
		for _, f := range program.Faults(seed, plan) {
			if f.At < at || f.At >= plan.Length {
				t.Fatalf("seed %d: %+v is not between %s and the end of the plan", seed, f, at)
			}
			at = f.At
			if f.At < until[f.Target] {
				t.Fatalf("seed %d: %+v starts during the last fault of the same process", seed, f)
			}
			until[f.Target] = f.At + f.For
		}
	}
}

func TestAtMostTwoServersAreDown(t *testing.T) {
	for seed := range uint64(50) {
		faults := program.Faults(seed, plan)
		for _, f := range faults {
			down := map[int]bool{}
			for _, other := range faults {
				if other.Target.Role == program.Server && other.At <= f.At && f.At < other.At+other.For {
					down[other.Target.Number] = true
				}
			}
			if len(down) > 2 {
				t.Fatalf("seed %d: three servers are down at %s", seed, f.At)
			}
		}
	}
}
