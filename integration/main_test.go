package integration_test

import (
	"testing"

	"go.uber.org/goleak"
)

// sourcing is a goroutine that nats-server leaves behind for a while when it is shut down before a stream has reached
// its source.
const sourcing = "github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"

func TestMain(m *testing.M) {
	// An object store's Put in nats.go 1.55 forgets this goroutine if it has not been scheduled by the time Put returns.
	forgotten := "github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction(forgotten), goleak.IgnoreAnyFunction(sourcing))
}
