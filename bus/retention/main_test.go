package retention_test

import (
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
)

func TestMain(m *testing.M) {
	// A goroutine of nats.go ends with its connection, a moment after that is closed.
	bustest.Main(m, "github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect")
}
