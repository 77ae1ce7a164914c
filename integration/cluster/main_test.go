//go:build unix

package cluster_test

import (
	"testing"

	"github.com/loopbus/loopbus/integration/internal/cluster"
	"github.com/loopbus/loopbus/integration/internal/system"
)

// atOnce is how many tests run in parallel. They wait for elections most of the time.
const atOnce = 12

func TestMain(m *testing.M) {
	cluster.Main()
	system.Main(m, atOnce)
}
