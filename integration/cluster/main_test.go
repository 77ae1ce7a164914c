//go:build unix

package cluster_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/cluster"
	"github.com/loopbus/loopbus/integration/internal/process"
)

// programs is where the programs are that the tests run. A server that is started by a test has none.
var programs string

// atOnce is how many tests run at once.
const atOnce = 6

func TestMain(m *testing.M) {
	cluster.Main()
	err := bustest.TestsAtOnce(atOnce)
	if err == nil {
		err = process.AdoptOrphans()
	}
	if err != nil {
		panic(err)
	}
	if programs, err = os.MkdirTemp("", "loopbus-cluster-"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m,
		// An object store's Put in nats.go 1.55 forgets this goroutine if it has not been scheduled by the time Put returns.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
		goleak.Cleanup(func(code int) {
			_ = os.RemoveAll(programs)
			os.Exit(process.NothingLeft(code))
		}))
}
