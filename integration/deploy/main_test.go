//go:build unix

package deploy_test

import (
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/integration/internal/process"
)

var update = flag.Bool("update", false, "write what is generated in docs/deploy")

// sourcing is a goroutine that nats-server leaves behind for a while when it is shut down before a stream has reached
// its source.
const sourcing = "github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := process.AdoptOrphans(); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(sourcing), goleak.Cleanup(func(code int) {
		os.RemoveAll(built)
		os.Exit(process.NothingLeft(code))
	}))
}

// built is where the programs are, once they have been made.
var built string

// programs makes the runner and the toolworker, once for all tests, and returns the directory they are in.
var programs = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "loopbus-deploy-"); err != nil {
		return "", err
	}
	built = dir
	return dir, process.Build(dir, "cmd/runner", "cmd/toolworker")
})

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
