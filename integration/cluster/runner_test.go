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

// build makes the runner's program, once for all tests, and returns the directory it is in.
var build = system.Programs("cmd/runner")

// What a runner logs, once, when nothing can be stored, and when it can be again.
const (
	saysStalled = "cannot renew the runner's entry"
	saysGoesOn  = "renewed the runner's entry again"
)

// runner is cmd/runner in a process of its own.
type runner struct {
	t   *testing.T
	log string
	web string
}

// startRunner returns once the runner is ready. It has no tools and answers by rule.
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

// lines are the lines of the log with a message, or a part of it.
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
			continue // not all of it is written yet
		}
		if text, _ := line["msg"].(string); strings.Contains(text, message) {
			found = append(found, line)
		}
	}
	return found
}

// ready asks /readyz, and returns what it says if it says no.
func (r *runner) ready() (ready bool, reason string) {
	r.t.Helper()
	status, reason := process.Page(r.web + "/readyz")
	return status == http.StatusOK, reason
}

func (r *runner) untilReady() {
	r.t.Helper()
	system.Eventually(r.t, "the runner is ready", func() bool { ready, _ := r.ready(); return ready })
}

// untilUnready waits until it says why it is not ready.
func (r *runner) untilUnready() (reason string) {
	r.t.Helper()
	system.Eventually(r.t, "the runner is not ready", func() bool {
		var ready bool
		ready, reason = r.ready()
		return !ready
	})
	return reason
}

// untilStalled waits until the runner has logged that nothing is stored. It does so with the first renewal of its entry
// that fails after it is not ready any more.
func (r *runner) untilStalled() {
	r.t.Helper()
	system.Eventually(r.t, "the runner logs that nothing is stored", func() bool { return len(r.lines(saysStalled)) > 0 })
}

// checkGoesOn wants the runner to log as often that it goes on as that it is stalled. It may do so up to three times: a
// server that joins in again may cost the others their leaders, and the runner its entry.
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
