//go:build unix

package anylanguage_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/process"
)

// sourcing is a goroutine that nats-server leaves behind for a while when it is shut down before a stream has reached
// its source.
const sourcing = "github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"

// atOnce is how many tests run at once. They wait for programs most of the time.
const atOnce = 6

func TestMain(m *testing.M) {
	if err := errors.Join(bustest.TestsAtOnce(atOnce), process.AdoptOrphans()); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(sourcing), goleak.Cleanup(func(code int) {
		os.RemoveAll(programsDir) // of "" is nothing
		os.Exit(process.NothingLeft(code))
	}))
}

// programsDir is the directory of programs once a test has needed them, else "".
var programsDir string

// programs makes the runner, replay and the example in Go, once for all tests, and returns the directory they are in.
var programs = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "loopbus-anylanguage-"); err == nil {
		programsDir = dir
		err = process.Build(dir, "cmd/runner", "cmd/replay", "docs/examples/dice")
	}
	return dir, err
})

// needs skips the test where something of another language is not there, with a text that says how to get it. In CI
// that is a failure.
func needs(t *testing.T, how string, missing ...error) {
	t.Helper()
	err := errors.Join(missing...)
	if err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%v: %s", err, how)
	}
	t.Skipf("%v: %s", err, how)
}

// program returns an error unless a program is in the path.
func program(name string) error {
	_, err := exec.LookPath(name)
	return err
}

// example is a file of an example.
func example(t *testing.T, elem ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", "..", "docs", "examples"}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
