package crashpoints_test

import (
	"flag"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
)

var (
	all    = flag.Bool("crashpoints.all", false, "try every fault at every point, not a sample")
	sample = flag.Int("crashpoints.sample", 50, "how many faults to try without -crashpoints.all")
	pairs  = flag.Int("crashpoints.pairs", 8, "how many pairs of faults to try")
	stages = flag.Int("crashpoints.stages", 16, "how many systems a test runs at once")
	only   = flag.String("crashpoints.only", "", "try the scenarios whose names contain this")
	seed   = flag.Int64("crashpoints.seed", 0, "seed of the samples; 0 takes one of the clock")
)

// deadline is how long a test waits for something that has to happen.
const deadline = 2 * time.Minute

// TestMain leaves out what Watermill 1.5 leaves behind: a router whose worker is killed before all handlers have
// subscribed waits for the others for ever.
func TestMain(m *testing.M) {
	bustest.Main(m, "github.com/ThreeDotsLabs/watermill/message.(*Router).watchAllHandlersStopped.func1")
}
