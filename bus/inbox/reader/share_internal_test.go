package reader

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func runnerIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("runner-%d", i)
	}
	return ids
}

func TestEveryPartitionHasOneOwnerAndNoRunnerTooMany(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 7, 64, 256} {
		for n := 1; n <= 40; n++ {
			ids := runnerIDs(n)
			owned := map[string]int{}
			for _, id := range assign(partitions, ids) {
				owned[id]++
			}
			total := 0
			for _, id := range ids {
				total += owned[id]
				if owned[id] > maxShare(partitions, n) {
					t.Errorf("%d partitions, %d runners: %s owns %d, more than %d",
						partitions, n, id, owned[id], maxShare(partitions, n))
				}
			}
			if total != partitions {
				t.Errorf("%d partitions, %d runners: only %d are owned by one of them", partitions, n, total)
			}
		}
	}
}

func TestOwnersDoNotDependOnTheOrderOfRunners(t *testing.T) {
	t.Parallel()
	ids := runnerIDs(9)
	want := assign(64, ids)
	for range 20 {
		rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		if got := assign(64, ids); !slices.Equal(got, want) {
			t.Fatalf("another order of ids has other owners: %v, want %v", got, want)
		}
	}
}

// A newcomer's mean share has to move. Rendezvous hashing ensures that hardly anything else does.
func TestNewcomerMovesLittleMoreThanItsShare(t *testing.T) {
	t.Parallel()
	const partitions = 64
	moved, needed := 0, 0
	for n := 1; n < 16; n++ {
		ids := runnerIDs(n + 1)
		before, after := assign(partitions, ids[:n]), assign(partitions, ids)
		for p := range before {
			if before[p] != after[p] {
				moved++
				if after[p] == ids[n] {
					needed++
				}
			}
		}
	}
	if moved > 2*needed {
		t.Errorf("%d partitions moved, only %d of them to the newcomers", moved, needed)
	}
	t.Logf("moved %d, of them to newcomers %d", moved, needed)
}
