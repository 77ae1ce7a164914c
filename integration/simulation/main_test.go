package simulation_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "run this seed alone; with -v, tell it step by step")
	simSeeds = flag.Int("sim.seeds", defaultSeeds, "how many seeds to run, from a random one on")
	simFirst = flag.Uint64("sim.first", 0, "the first of them; 0 is a random one")
)

// firstSeed is where the seeds of this run of the tests begin.
func firstSeed() uint64 {
	if *simFirst == 0 {
		*simFirst = 1 + rand.Uint64()>>24
	}
	return *simFirst
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
