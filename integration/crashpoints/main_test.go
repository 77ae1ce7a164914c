package crashpoints_test

import (
	"flag"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
)

var (
	all    = flag.Bool("crashpoints.all", false, "try every fault at every point, not a sample")
	sample = flag.Int("crashpoints.sample", 10, "number of faults to try without -crashpoints.all")
	pairs  = flag.Int("crashpoints.pairs", 2, "number of pairs of faults to try")
	stages = flag.Int("crashpoints.stages", 16, "number of systems that a test runs in parallel")
	only   = flag.String("crashpoints.only", "", "try only scenarios whose names contain this")
	seed   = flag.Int64("crashpoints.seed", 0, "seed of the samples; 0 takes it from the clock")
)

// deadline is how long a test waits for an event that has to happen.
const deadline = 4 * time.Minute

// TestMain ignores a goroutine leak of Watermill 1.5: the router of a worker that is killed before all handlers have
// subscribed waits for the others forever.
func TestMain(m *testing.M) {
	bustest.Main(m, "github.com/ThreeDotsLabs/watermill/message.(*Router).watchAllHandlersStopped.func1")
}
