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
	log  string // file with what it prints
}

// start runs a command of the project. With a tap it is connected through a gateway. It is killed when the test ends.
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
		tap.mu.Lock() // it sees nothing before it knows the process
		defer tap.mu.Unlock()
	}
	dir := w.t.TempDir()
	c := w.run(process.Command{
		Name: name, Path: filepath.Join(bin, program), Args: append([]string{"--nats", url, "--id", name}, args...), Dir: dir,
		Env: []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "GORACE=atexit_sleep_ms=0"},
		// race-built, it would sleep at its exit
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

// runner starts a runner that plays a script, with a takeover as short as it may be unless args say otherwise, and
// returns once it reads its share of the inbox.
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

// served are the tools of the workers.
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

// entry is a line of a log in JSON.
type entry map[string]any

// logged returns the lines of a runner's log for which is holds.
func (c *command) logged(is func(entry) bool) (all []entry) {
	for line := range strings.Lines(c.output()) {
		var e entry
		if json.Unmarshal([]byte(line), &e) == nil && is(e) {
			all = append(all, e)
		}
	}
	return all
}

// says holds for the lines with a message.
func says(message string) func(entry) bool { return func(e entry) bool { return e["msg"] == message } }

// page returns what a runner answers over HTTP, and the status; 0 if nobody does.
func (c *command) page(path string) (int, string) {
	c.w.t.Helper()
	var where []entry
	system.Eventually(c.w.t, c.name+" listens", func() bool {
		select {
		case <-c.Done():
			c.w.t.Fatalf("%s ended", c.name)
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
