//go:build unix

package cluster_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/integration/internal/process"
	"github.com/loopbus/loopbus/integration/internal/system"
)

// build builds the runner's program, once for all tests, and returns its directory.
var build = system.Programs("cmd/runner")

// Messages that a runner logs once when the servers store nothing, and once when they store again.
const (
	saysStalled = "cannot renew the runner's entry"
	saysGoesOn  = "runner's entry renewed again"
)

// runner is a process of cmd/runner.
type runner struct {
	t   *testing.T
	log string
	web string
}

// startRunner starts a runner and returns once it is ready. It has no tools; its model answers by fixed rules.
func startRunner(t *testing.T, url, id string) *runner {
	t.Helper()
	programs, err := build()
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{t: t, log: filepath.Join(t.TempDir(), "log")}
	p, err := process.Start(process.Command{
		Name: "runner " + id, Path: filepath.Join(programs, "runner"), Log: r.log, Dir: t.TempDir(), Env: os.Environ(),
		Args: []string{"--nats", url, "--replicas", "3", "--id", id, "--http", "127.0.0.1:0", "--log-json",
			"--log-level", "debug"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Kill()
		if t.Failed() {
			log, _ := os.ReadFile(r.log)
			t.Logf("runner %s:\n%s", id, log)
		}
	})
	system.Eventually(t, "the runner answers", func() bool {
		for _, line := range r.lines("health and metrics") {
			r.web = "http://" + line["address"].(string)
		}
		return r.web != ""
	})
	r.untilReady()
	return r
}

// lines returns the lines of the log whose message contains a text.
func (r *runner) lines(message string) (found []map[string]any) {
	r.t.Helper()
	log, err := os.Open(r.log)
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	for s := bufio.NewScanner(log); s.Scan(); {
		line := map[string]any{}
		if json.Unmarshal(s.Bytes(), &line) != nil {
			continue // the line is not complete yet
		}
		if text, _ := line["msg"].(string); strings.Contains(text, message) {
			found = append(found, line)
		}
	}
	return found
}

// ready requests /readyz, and returns the reason if the runner is not ready.
func (r *runner) ready() (ready bool, reason string) {
	r.t.Helper()
	status, reason := process.Page(r.web + "/readyz")
	return status == http.StatusOK, reason
}

func (r *runner) untilReady() {
	r.t.Helper()
	system.Eventually(r.t, "the runner is ready", func() bool { ready, _ := r.ready(); return ready })
}

// untilUnready waits until the runner is not ready, and returns the reason.
func (r *runner) untilUnready() (reason string) {
	r.t.Helper()
	system.Eventually(r.t, "the runner is not ready", func() bool {
		var ready bool
		ready, reason = r.ready()
		return !ready
	})
	return reason
}

// untilStalled waits until the runner has logged that nothing is stored. It logs that at the first failed renewal of
// its entry after it has become unready.
func (r *runner) untilStalled() {
	r.t.Helper()
	system.Eventually(r.t, "the runner logs that nothing is stored", func() bool { return len(r.lines(saysStalled)) > 0 })
}

// checkGoesOn checks that the runner logs as often that it continues as that it is stalled. It may log both up to three
// times: when a server rejoins, the others may lose their leaders, and the runner its entry.
func (r *runner) checkGoesOn() {
	r.t.Helper()
	var stalled, goesOn int
	system.Eventually(r.t, "it logs as often that it goes on as that it does not", func() bool {
		stalled, goesOn = len(r.lines(saysStalled)), len(r.lines(saysGoesOn))
		return goesOn == stalled
	})
	if stalled < 1 || stalled > 3 {
		r.t.Errorf("it logs %d times that nothing is stored, %d times that it is again", stalled, goesOn)
	}
}
