//go:build unix

package processes_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/integration/internal/process"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/integration/internal/wire"
	"github.com/loopbus/loopbus/schemas"
)

// command is a process of the project.
type command struct {
	*process.Process
	w    *world
	name string
	log  string // file with its output
}

// start starts a command of the project, connected through a gateway if tap is set, and kills it when the test ends.
func (w *world) start(name, program string, tap *tap, args ...string) *command {
	w.t.Helper()
	bin, err := commands()
	if err != nil {
		w.t.Fatal(err)
	}
	url := w.url
	if tap != nil {
		gateway, err := wire.Listen(strings.TrimPrefix(w.url, "nats://"), tap)
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(gateway.Close)
		url = gateway.URL()
		tap.mu.Lock() // the tap handles no message before it has the process
		defer tap.mu.Unlock()
	}
	dir := w.t.TempDir()
	c := w.run(process.Command{
		Name: name, Path: filepath.Join(bin, program), Args: append([]string{"--nats", url, "--id", name}, args...), Dir: dir,
		Env: []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "GORACE=atexit_sleep_ms=0"},
		// with the race detector it would sleep at its exit
	})
	if tap != nil {
		tap.process = c
	}
	return c
}

func (w *world) run(what process.Command) *command {
	w.t.Helper()
	what.Log = filepath.Join(w.t.TempDir(), "output")
	p, err := process.Start(what)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &command{Process: p, w: w, name: what.Name, log: what.Log}
	w.t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			w.t.Error(err)
		}
		if w.t.Failed() {
			w.t.Logf("%s said:\n%s", c.name, c.output())
		}
	})
	return c
}

// runner starts a runner with a scripted model, and returns once it reads its share of the inbox. Its takeover time is
// the shortest allowed, unless args set it.
func (w *world) runner(id string, plays interface{ file() any }, tap *tap, args ...string) *command {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "script.json")
	if err := os.WriteFile(file, encoded(plays.file()), 0o600); err != nil {
		w.t.Fatal(err)
	}
	given := append([]string{"--model", "scripted", "--script", file, "--http", "127.0.0.1:0", "--log-json",
		"--partitions", "8", "--takeover", inbox.DefaultTakeover.String()}, args...)
	c := w.start(id, "runner", tap, given...)
	c.awaitReady()
	return c
}

// served are the tools that the workers serve.
var served = []string{"bash", "read", "write"}

// toolworker starts a worker that serves bash, read and write, and returns once they are announced.
func (w *world) toolworker(id string, tap *tap) *command {
	w.t.Helper()
	c := w.start(id, "toolworker", tap, "--tools", strings.Join(served, ","), "--root", w.root)
	announced, err := w.conn.JetStream().KeyValue(w.t.Context(), schemas.BucketTools)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, tool := range served {
		system.Eventually(w.t, id+" announces "+tool, func() bool {
			_, err := announced.Get(w.t.Context(), schemas.AnnouncementKey(tool, id))
			return err == nil
		})
	}
	return c
}

func (c *command) output() string {
	data, err := os.ReadFile(c.log)
	if err != nil {
		c.w.t.Error(err)
	}
	return string(data)
}

// entry is a log line in JSON.
type entry map[string]any

// logged returns the lines of a runner's log for which is returns true.
func (c *command) logged(is func(entry) bool) (all []entry) {
	for line := range strings.Lines(c.output()) {
		var e entry
		if json.Unmarshal([]byte(line), &e) == nil && is(e) {
			all = append(all, e)
		}
	}
	return all
}

// says returns a function that reports whether a line has this message.
func says(message string) func(entry) bool { return func(e entry) bool { return e["msg"] == message } }

// page returns the body and the status of a runner's HTTP answer; status 0 if there is no answer.
func (c *command) page(path string) (int, string) {
	c.w.t.Helper()
	var where []entry
	system.Eventually(c.w.t, c.name+" listens", func() bool {
		select {
		case <-c.Done():
			c.w.t.Fatalf("%s has ended", c.name)
		default:
		}
		where = c.logged(says("health and metrics"))
		return len(where) > 0
	})
	return process.Page("http://" + where[0]["address"].(string) + path)
}

func (c *command) awaitReady() {
	c.w.t.Helper()
	system.Eventually(c.w.t, c.name+" is ready", func() bool {
		code, _ := c.page("/readyz")
		return code == http.StatusOK
	})
}
