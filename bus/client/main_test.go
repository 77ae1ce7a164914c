package client_test

import (
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
)

func TestMain(m *testing.M) {
	// An object store's Put in nats.go 1.55 forgets this goroutine if it has not been scheduled by the time Put returns:
	// it then reads a field that was set to nil.
	bustest.Main(m, "github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect")
}
