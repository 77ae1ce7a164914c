//go:build unix

package anylanguage_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/loopbus/loopbus/integration/internal/system"
)

// atOnce is how many tests run in parallel. They wait for programs most of the time.
const atOnce = 6

func TestMain(m *testing.M) {
	system.Main(m, atOnce)
}

// programs builds the runner, replay and the example in Go, once for all tests, and returns their directory.
var programs = system.Programs("cmd/runner", "cmd/replay", "docs/examples/dice")

// needs skips the test if a program or library of another language is missing, with a text that says how to install it.
// In CI it fails the test.
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

// example returns the path of a file of an example.
func example(t *testing.T, elem ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", "..", "docs", "examples"}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
