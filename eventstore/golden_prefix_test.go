package eventstore_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// prefixPath is where the hashes of the states are kept that the prefixes of the log fold to.
func (g goldenLog) prefixPath() string { return g.foldPath() + ".prefixes" }

// prefixSums returns, for each event of the log, the SHA-256 of the state that the log up to it folds to.
func (g goldenLog) prefixSums(t *testing.T) (sums []string) {
	t.Helper()
	state := &loop.State{Session: g.Session}
	for _, e := range g.events(t) {
		if err := state.Apply(e); err != nil {
			t.Fatalf("%s: %v", g.path, err)
		}
		raw, err := schemas.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(raw)
		sums = append(sums, hex.EncodeToString(sum[:]))
	}
	return sums
}

// A log that ends in the middle of a command has to fold as it did when that command was accepted: what is still to be
// appended is part of the state.
func TestGoldenPrefixesFold(t *testing.T) {
	t.Parallel()
	for _, g := range goldenLogs(t, "") {
		t.Run(g.name(), func(t *testing.T) {
			raw, err := os.ReadFile(g.prefixPath())
			if err != nil {
				t.Fatalf("%v: with -update, the states of the prefixes are written beside the log", err)
			}
			got, want := g.prefixSums(t), strings.Fields(string(raw))
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Fatalf("after event %d the state has the SHA-256 %s, want %s", i+1, got[i], want[i])
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d states, want %d", len(got), len(want))
			}
		})
	}
}
