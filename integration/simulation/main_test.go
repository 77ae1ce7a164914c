package simulation_test

import (
	"flag"
	"math/rand/v2"
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "run this seed alone; with -v, tell it step by step")
	simSeeds = flag.Int("sim.seeds", defaultSeeds, "how many seeds to run, from a random one on")
	simFirst = flag.Uint64("sim.first", 0, "the first of them; 0 is a random one")
)

// firstSeed is the first seed of this test run.
func firstSeed() uint64 {
	if *simFirst == 0 {
		*simFirst = 1 + rand.Uint64()>>24
	}
	return *simFirst
}

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // with the default 100 the collector takes a fifth of the processor time
	goleak.VerifyTestMain(m)
}
