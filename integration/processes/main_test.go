//go:build unix

package processes_test

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/integration/internal/system"
)

// The test binary also runs as the NATS server that tests kill. These variables are set then: the address on which it
// listens, and its directory.
const (
	listenVariable = "LOOPBUS_PROCESSES_LISTEN"
	storeVariable  = "LOOPBUS_PROCESSES_STORE"
)

// atOnce is how many tests run in parallel. They wait for processes most of the time.
const atOnce = 16

func TestMain(m *testing.M) {
	listen := os.Getenv(listenVariable)
	if listen == "" {
		system.Main(m, atOnce)
	}
	if err := serveNATS(listen, os.Getenv(storeVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// commands builds the commands of the project, once for all tests, and returns their directory.
var commands = system.Programs("cmd/runner", "cmd/toolworker", "cmd/replay")

// serveNATS runs a NATS server until SIGTERM.
func serveNATS(listen, store string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	server, err := embedded.Start(embedded.Options{Listen: listen, StoreDir: store})
	if err != nil {
		return err
	}
	<-stop
	server.Shutdown()
	return nil
}
