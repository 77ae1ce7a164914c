//go:build unix

package cluster_test

import (
	"flag"
	"testing"

	"github.com/loopbus/loopbus/integration/internal/cluster"
	"github.com/loopbus/loopbus/integration/internal/system"
)

// atOnce is how many tests run in parallel. They wait for elections most of the time.
const atOnce = 12

var allLeaders = flag.Bool("cluster.leaders", false, "kill the leader of each stream, not only of the logs")

func TestMain(m *testing.M) {
	cluster.Main()
	system.Main(m, atOnce)
}
