package agent_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scenariosEnv names a directory with more scenarios of the same format.
const scenariosEnv = "LOOPBUS_AGENT_SCENARIOS"

// shuffledRounds is how often each scenario is played again with random pauses.
const shuffledRounds = 2

// TestConformance plays what was recorded from the reference implementation, what we wrote ourselves after its
// description, and what scenariosEnv names, through the public API of this package.
func TestConformance(t *testing.T) {
	t.Parallel()
	dirs := []string{filepath.Join("testdata", "conformance"), filepath.Join("testdata", "conformance-own")}
	if dir := os.Getenv(scenariosEnv); dir != "" {
		dirs = append(dirs, dir)
	} else {
		t.Run(scenariosEnv, func(t *testing.T) { t.Skip(scenariosEnv + " names no directory with more scenarios") })
	}
	for _, dir := range dirs {
		files, err := scenarioFiles(dir)
		if err != nil {
			t.Error(err)
		}
		for _, file := range files {
			name := filepath.Base(dir) + "/" + strings.TrimSuffix(filepath.Base(file), ".json")
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				conform(t, file, nil)
				for seed := range uint64(shuffledRounds) {
					conform(t, file, rand.New(rand.NewPCG(seed, 0)))
				}
			})
		}
	}
}

// conform plays a scenario, with random pauses if there are dice, and reports every difference from what was recorded.
func conform(t *testing.T, file string, dice *rand.Rand) {
	t.Helper()
	r, err := loadRecording(file)
	if err != nil {
		t.Fatal(err)
	}
	normalExpected(r.Expected)
	if err := adaptLength(r.Scenario, r.Expected); err != nil {
		t.Fatal(err)
	}
	got, err := newPlayer(r.Scenario, dice).play()
	if err != nil {
		t.Error(err)
	}
	if got == nil {
		return
	}
	failed := false
	for _, section := range sections {
		if diff := compare(section, r, got); diff != "" {
			failed = true
			t.Errorf("%s (-recorded +played):\n%s", section, diff)
		}
	}
	if failed {
		t.Fatalf("scenario: %s", r.Scenario.Why)
	}
}

// sections are the parts of an outcome, those first in which a difference is nearest to its cause. What the reference
// leaves in the caller's own list of messages ("callerMessages") is not for a port to match.
var sections = []string{
	"calls", "injected", "events", "llmCalls", "executed", "hooks", "snapshots", "listenerLog", "state",
}

func compare(section string, r recording, got object) string {
	if section == "state" {
		return cmp.Diff(r.Expected[section], got[section])
	}
	want, have := list(r.Expected, section), list(got, section)
	if len(want) == 0 && len(have) == 0 {
		return ""
	}
	diff := cmp.Diff(want, have)
	if diff != "" && len(want) != len(have) {
		diff = fmt.Sprintf("%d recorded, %d played\n%s", len(want), len(have), diff)
	}
	return diff
}
