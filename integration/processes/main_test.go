//go:build unix

package processes_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/integration/internal/process"
)

// The test binary is also the NATS server that is killed: where these are set, the address it listens on and its
// directory.
const (
	listenVariable = "LOOPBUS_PROCESSES_LISTEN"
	storeVariable  = "LOOPBUS_PROCESSES_STORE"
)

// atOnce is how many tests run at once.
const atOnce = 8

func TestMain(m *testing.M) {
	var err error
	if listen := os.Getenv(listenVariable); listen != "" {
		err = serveNATS(listen, os.Getenv(storeVariable))
	} else {
		err = test(m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func test(m *testing.M) error {
	if err := bustest.TestsAtOnce(atOnce); err != nil {
		return err
	}
	if err := process.AdoptOrphans(); err != nil {
		return err
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir, err := commands(); err == nil {
			os.RemoveAll(dir)
		}
		os.Exit(process.NothingLeft(code))
	}),
		// nats-server leaves this one behind for a while when it is shut down before a stream has reached its source.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"))
	return errors.New("unreachable")
}

// commands makes the commands of the project, once for all tests, and returns the directory they are in.
var commands = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "loopbus-processes-"); err == nil {
		err = process.Build(dir, "cmd/runner", "cmd/toolworker", "cmd/replay")
	}
	return dir, err
})

// serveNATS is a NATS server until SIGTERM.
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
