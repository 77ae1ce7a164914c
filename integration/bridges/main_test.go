package bridges_test

import (
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
)

func TestMain(m *testing.M) {
	// See the tests of eventstore: an object store's Put forgets this goroutine.
	bustest.Main(m, "github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect")
}
