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

	"github.com/loopbus/loopbus/integration/internal/system"
)

var (
	loadCalls    = flag.Int("load.calls", 400, "tool calls of all sessions together")
	loadSessions = flag.Int("load.sessions", 20, "sessions that share them evenly")
	loadWindow   = flag.Int("load.window", 4, "calls that a session has with the workers at once")
	loadAlone    = flag.Int("load.alone", 20, "calls one by one, for the latency of a call")
)

// The test binary also runs as the worker processes.
const configVariable = "LOOPBUS_LOAD_WORKER"

// testsAtOnce is how many tests run in parallel.
const testsAtOnce = 2

func TestMain(m *testing.M) {
	config := os.Getenv(configVariable)
	if config == "" {
		system.Main(m, testsAtOnce)
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
