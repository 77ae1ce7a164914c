//go:build unix

package load_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/integration/internal/process"
)

var (
	loadCalls    = flag.Int("load.calls", 400, "tool calls of all sessions together")
	loadSessions = flag.Int("load.sessions", 20, "sessions that share them evenly")
	loadWindow   = flag.Int("load.window", 4, "calls that a session has with the workers at once")
	loadAlone    = flag.Int("load.alone", 20, "calls one by one, for the latency of a call")
)

// The test binary is also the worker processes.
const configVariable = "LOOPBUS_LOAD_WORKER"

// sourcing is a goroutine that nats-server leaves behind for a while when it is shut down before a stream has reached
// its source.
const sourcing = "github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"

func TestMain(m *testing.M) {
	config := os.Getenv(configVariable)
	if config == "" {
		if err := process.AdoptOrphans(); err != nil {
			panic(err)
		}
		goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(sourcing),
			goleak.Cleanup(func(code int) { os.Exit(process.NothingLeft(code)) }))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var c workerConfig
	err := json.Unmarshal([]byte(config), &c)
	if err == nil {
		err = serve(ctx, c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
