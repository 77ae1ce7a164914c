package bus_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/bus"
)

// sourcing is a goroutine that nats-server leaves behind for a while when it is shut down before a stream has reached its
// source.
const sourcing = "github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(sourcing)) }

// deadline is the context of one test: long enough for a busy machine, short enough not to hang.
func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// startServer starts a server in a new directory, for the length of the test.
func startServer(t testing.TB) *bus.Server { return startServerIn(t, t.TempDir()) }

func startServerIn(t testing.TB, dir string) *bus.Server {
	t.Helper()
	s, err := bus.StartServer(bus.ServerOptions{StoreDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

// restartable returns the address and the start of a server that finds its data when it is started again.
func restartable(t *testing.T) (addr string, start func() *bus.Server) {
	t.Helper()
	dir, addr := t.TempDir(), freePort(t)
	return addr, func() *bus.Server {
		t.Helper()
		s, err := bus.StartServer(bus.ServerOptions{Listen: addr, StoreDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Shutdown)
		return s
	}
}

// connect connects to s, for the length of the test.
func connect(t testing.TB, s *bus.Server) *bus.Conn {
	t.Helper()
	c, err := bus.Connect(deadline(t), bus.ConnOptions{Server: s, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// newBus returns a connection to a server of its own with all streams.
func newBus(t testing.TB) *bus.Conn {
	t.Helper()
	c := connect(t, startServer(t))
	if err := bus.Setup(deadline(t), c, bus.StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually waits until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(90 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("never happened: %s", what)
		}
	}
}
