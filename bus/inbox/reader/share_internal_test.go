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

func TestEveryPartitionHasOneReaderAndNobodyTooMany(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 7, 64, 256} {
		for n := 1; n <= 40; n++ {
			ids := runnerIDs(n)
			seen := make([]int, partitions)
			for _, id := range ids {
				mine := share(partitions, ids, id)
				if len(mine) > maxShare(partitions, n) {
					t.Errorf("%d partitions, %d runners: %s reads %d, more than %d",
						partitions, n, id, len(mine), maxShare(partitions, n))
				}
				for _, p := range mine {
					seen[p]++
				}
			}
			for p, readers := range seen {
				if readers != 1 {
					t.Fatalf("%d partitions, %d runners: partition %d has %d readers", partitions, n, p, readers)
				}
			}
		}
	}
}

func TestDivisionDoesNotDependOnTheOrderOfRunners(t *testing.T) {
	t.Parallel()
	ids := runnerIDs(9)
	want := divide(64, ids)
	for range 20 {
		rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		if got := divide(64, append(ids, ids[0])); !slices.Equal(got, want) {
			t.Fatalf("order or repetition of ids changes the division: %v, want %v", got, want)
		}
	}
}

// The mean share of a newcomer has to move; that hardly more does is what rendezvous hashing is for.
func TestANewcomerMovesLittleMoreThanItsShare(t *testing.T) {
	t.Parallel()
	const partitions = 64
	moved, needed := 0, 0
	for n := 1; n < 16; n++ {
		ids := runnerIDs(n + 1)
		before, after := divide(partitions, ids[:n]), divide(partitions, ids)
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

func TestNoRunnersShareNothing(t *testing.T) {
	t.Parallel()
	if got := share(64, nil, "a"); got != nil {
		t.Errorf("share without runners is %v", got)
	}
}
