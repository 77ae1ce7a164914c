//go:build unix

package chaos_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/loopbus/loopbus/integration/internal/system"
)

var (
	chaosDuration = flag.Duration("chaos.duration", 0, "run rounds of random faults for this long; 0 runs one short round")
	chaosSeed     = flag.Uint64("chaos.seed", 0, "seed of the first round; 0 draws one")
	chaosKills    = flag.Int("chaos.kills", 1, "how often TestHandover kills, stops and freezes a runner")
)

// The test binary also runs as the processes that are not commands of the project: NATS servers, and toolworkers that
// count.
const (
	roleVariable   = "LOOPBUS_CHAOS_ROLE"
	configVariable = "LOOPBUS_CHAOS_CONFIG"
	roleServer     = "server"
	roleCounter    = "counter"
)

// atOnce is how many tests run in parallel.
const atOnce = 2

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		system.Main(m, atOnce)
	case roleServer:
		play(serveNATS)
	case roleCounter:
		play(serveCounting)
	default:
		fmt.Fprintf(os.Stderr, "unknown role %q\n", role)
		os.Exit(2)
	}
}

// play runs a role with its configuration until SIGTERM.
func play[C any](role func(ctx context.Context, c C) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var c C
	err := json.Unmarshal([]byte(os.Getenv(configVariable)), &c)
	if err == nil {
		err = role(ctx, c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// parallel runs the test in parallel with others in its short form. The long forms measure times and run alone.
func parallel(t *testing.T) {
	if *chaosDuration == 0 && *chaosKills == 1 {
		t.Parallel()
	}
}

// deadline bounds one step of a test; it is long enough for a busy machine.
const deadline = 90 * time.Second

// cleanupTime is left between the end of a test's context and the deadline of the test binary, to stop all processes.
const cleanupTime = 30 * time.Second

// testContext returns a context that ends with the test, or cleanupTime before the deadline of the test binary.
func testContext(t *testing.T) context.Context {
	end, ok := t.Deadline()
	if !ok {
		return t.Context()
	}
	ctx, cancel := context.WithDeadline(t.Context(), end.Add(-cleanupTime))
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until ok returns true, and fails the test with what if that takes too long.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(testContext(t), within)
	defer cancel()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("did not happen within %s: %s", within, what)
		}
	}
}
