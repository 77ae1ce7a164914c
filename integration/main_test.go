package integration_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// An object store's Put in nats.go 1.55 forgets this goroutine if it has not been scheduled by the time Put returns.
	forgotten := "github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction(forgotten))
}
