package eventstore_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// verify verifies the log, against its snapshot where that is of this fold.
func (g goldenLog) verify(t *testing.T) eventstore.Report {
	t.Helper()
	o := eventstore.VerifyOptions{
		Version: loop.FoldVersion,
		Refold: func(events iter.Seq[schemas.Event]) ([]byte, error) {
			state, err := folded(g.Session, events)
			if err != nil {
				return nil, err
			}
			return schemas.Marshal(state)
		},
	}
	if g.snapshot != nil && g.version != loop.FoldVersion { // no state of this fold, but it belongs to the log
		o.Version, o.Refold = g.version, nil
	}
	report, err := g.restore().Verify(t.Context(), g.Session, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func folded(session string, events iter.Seq[schemas.Event]) (*loop.State, error) {
	state := &loop.State{Session: session}
	for e := range events {
		if err := state.Apply(e); err != nil {
			return nil, err
		}
	}
	return state, nil
}

// events decodes the log.
func (g goldenLog) events(t *testing.T) (events []schemas.Event) {
	t.Helper()
	for e, err := range g.restore().Read(t.Context(), g.Session, 1) {
		if err != nil {
			t.Fatalf("%s: %v", g.path, err)
		}
		events = append(events, e)
	}
	return events
}

// foldPath is where the hash of the state is kept that this version of the fold gives.
func (g goldenLog) foldPath() string {
	return fmt.Sprintf("%s.fold%d", strings.TrimSuffix(g.path, ".ndjson"), loop.FoldVersion)
}

// fold returns the SHA-256 of the state, as a snapshot has it.
func (g goldenLog) fold(t *testing.T) string {
	t.Helper()
	state, err := folded(g.Session, slices.Values(g.events(t)))
	if err != nil {
		t.Fatalf("%s: %v", g.path, err)
	}
	raw, err := schemas.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// What older versions have written verifies, and folds to the same state, bit for bit.
func TestGoldenLogsVerifyAndFold(t *testing.T) {
	t.Parallel()
	for _, g := range goldenLogs(t, "") {
		t.Run(g.name(), func(t *testing.T) {
			report := g.verify(t)
			if events := g.events(t); !report.OK() || report.Events != uint64(len(events)) {
				t.Errorf("%d of %d events are good: %v", report.Events, len(events), report.Bad)
			}
			if g.version == loop.FoldVersion && g.snapshot != nil && report.Snapshot == 0 {
				t.Error("the snapshot was not looked at")
			}
			want, err := os.ReadFile(g.foldPath())
			if err != nil {
				t.Fatalf("%v: with -update, the state by version %d of the fold is written beside the log", err, loop.FoldVersion)
			}
			if got := g.fold(t); got != strings.TrimSpace(string(want)) {
				t.Errorf("the state has the SHA-256 %s, want %s: a fold that gives another state is another version of it", got,
					want)
			}
		})
	}
}

// A type of event that no golden log has could change without anybody noticing.
func TestGoldenLogsHaveEveryType(t *testing.T) {
	t.Parallel()
	missing := schemas.DurableEventTypes()
	snapshots := 0
	for _, g := range goldenLogs(t, "") {
		for _, e := range g.events(t) {
			missing = slices.DeleteFunc(missing, func(t schemas.EventType) bool { return t == e.Type() })
		}
		if g.snapshot != nil {
			snapshots++
		}
	}
	if len(missing) > 0 || snapshots == 0 {
		t.Errorf("no golden log has %v; %d have a snapshot", missing, snapshots)
	}
}

// A damaged log fails, and with the text that says where and how.
func TestDamagedGoldenLogsFail(t *testing.T) {
	t.Parallel()
	for _, g := range goldenLogs(t, "damaged") {
		t.Run(g.name(), func(t *testing.T) {
			report := g.verify(t)
			if report.OK() {
				t.Fatalf("nothing was found, want %q", g.Fault)
			}
			if got := report.Bad.Error(); got != g.Fault {
				t.Errorf("found %q\nwant  %q", got, g.Fault)
			}
		})
	}
}
