//go:build unix

package deploy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/process"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// world is a NATS server with the users of nats.conf, and a runner and a toolworker with the arguments of compose.yaml.
type world struct {
	t        *testing.T
	url      string
	operator *nats.Conn
	programs map[string]*program
}

// program is one at work.
type program struct {
	t    *testing.T
	log  string // file
	name string
}

// compose is as much of compose.yaml as is run.
type compose struct {
	Services map[string]struct {
		Command     []string
		Environment map[string]string
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, url: startNATS(t), programs: map[string]*program{}}
	if w.operator, err = nats.Connect(w.url, nats.UserInfo("operator", passwords["operator"])); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.operator.Close)
	var c compose
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(deploy, "compose.yaml"))), &c); err != nil {
		t.Fatal(err)
	}
	work := t.TempDir() // has what is announced for prompts
	if err := os.WriteFile(filepath.Join(work, "AGENTS.md"), []byte("Be brief."), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"runner", "toolworker"} {
		args := w.changed(c.Services[name].Command, work)
		w.programs[name] = w.start(name, filepath.Join(dir, name), args)
		w.programs[name].ready()
	}
	return w
}

// startNATS starts one server alone, with the users of nats.conf.
func startNATS(t *testing.T) string {
	t.Helper()
	o := natsOptions(t)
	o.Port, o.HTTPPort, o.Cluster, o.Routes, o.StoreDir, o.SyncAlways = 0, 0, server.ClusterOpts{}, nil, "", false
	return bustest.NATS(t, o).ClientURL()
}

// changed are arguments of compose.yaml, but for what is another here: addresses, directories, and one server.
func (w *world) changed(args []string, work string) []string {
	w.t.Helper()
	args = slices.Clone(args)
	for i, a := range args {
		flag, _, _ := strings.Cut(a, "=")
		switch flag {
		case "--nats":
			args[i] = "--nats=" + w.url
		case "--replicas":
			args[i] = "--replicas=1"
		case "--http":
			args[i] = "--http=127.0.0.1:0"
		case "--root":
			args[i] = "--root=" + work
		}
	}
	return args
}

func (w *world) start(name, path string, args []string) *program {
	w.t.Helper()
	dir := w.t.TempDir()
	p := &program{w.t, filepath.Join(dir, "log"), name}
	run, err := process.Start(process.Command{Name: name, Path: path, Args: args, Dir: dir, Log: p.log,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "LOOPBUS_PASSWORD=" + passwords[name],
			"GORACE=atexit_sleep_ms=0"}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := run.Terminate(); err != nil {
			w.t.Error(err)
		}
		<-run.Done()
		if w.t.Failed() {
			w.t.Logf("%s said:\n%s", name, read(w.t, p.log))
		}
	})
	return p
}

// address is where the program serves health and metrics.
func (p *program) address() (address string) {
	p.t.Helper()
	system.Eventually(p.t, p.name+" serves", func() bool {
		for line := range strings.Lines(read(p.t, p.log)) {
			var entry struct{ Msg, Address string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "health and metrics" {
				address = entry.Address
			}
		}
		return address != ""
	})
	return address
}

func (p *program) get(path string) (int, string) {
	p.t.Helper()
	return process.Page("http://" + p.address() + path)
}

func (p *program) ready() {
	p.t.Helper()
	system.Eventually(p.t, p.name+" is ready", func() bool {
		code, _ := p.get("/readyz")
		return code == http.StatusOK
	})
	if code, body := p.get("/healthz"); code != http.StatusOK {
		p.t.Errorf("/healthz of %s: %d %s", p.name, code, body)
	}
}

// prompt has a session run to its end, and returns the results of its tools.
func (w *world) prompt(session, text string) (results []string) {
	w.t.Helper()
	c, err := client.New(w.operator, client.Options{Name: w.t.Name()})
	if err != nil {
		w.t.Fatal(err)
	}
	bustest.Prompt(w.t, c.Session(session), text)
	for _, d := range system.DataOf[*schemas.ToolExecutionEnd](bustest.Until(w.t, c.Session(session),
		"the end of the run", system.Ends(1))) {
		results = append(results, fmt.Sprintf("%s %v: %s", d.ToolName, d.IsError, d.Result.Content.JoinText()))
	}
	return results
}
