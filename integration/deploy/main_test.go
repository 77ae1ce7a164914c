//go:build unix

package deploy_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/loopbus/loopbus/integration/internal/system"
)

var update = flag.Bool("update", false, "write what is generated in docs/deploy")

// atOnce is how many tests run at once.
const atOnce = 4

func TestMain(m *testing.M) { system.Main(m, atOnce) }

// programs makes the runner and the toolworker, once for all tests, and returns the directory they are in.
var programs = system.Programs("cmd/runner", "cmd/toolworker")

// deploy is where the files are.
const deploy = "../../docs/deploy"

// files are those of docs/deploy that match a pattern.
func files(t *testing.T, patterns ...string) (all []string) {
	t.Helper()
	for _, p := range patterns {
		some, err := filepath.Glob(filepath.Join(deploy, p))
		if err != nil || len(some) == 0 {
			t.Fatalf("%s: %v, %d files", p, err, len(some))
		}
		all = append(all, some...)
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
