package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

var unexported = cmp.AllowUnexported(result{}, options{}, moment{}, cli.Connection{})

func TestStoreOfAServerThatIsNotRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agentSession()
	w.bigSession()
	list, show := w.replay("list"), w.replay("show", "agent")
	w.stop()
	for range 2 { // it leaves the store as it can be opened again
		if d := cmp.Diff(list, invoke(t, nil, "list", "--store", w.dir), unexported); d != "" {
			t.Errorf("list (-server +store):\n%s", d)
		}
	}
	if d := cmp.Diff(show, invoke(t, map[string]string{"LOOPBUS_STORE": w.dir}, "show", "agent"), unexported); d != "" {
		t.Errorf("show (-server +store):\n%s", d)
	}
	expect(t, invoke(t, nil, "verify", "--store", w.dir), cli.StatusOK,
		"big: ok, 2 events, 1 payload in the object store, hash ", "")
	w.start()
	expect(t, w.replay("verify"), cli.StatusOK, "2 sessions, 0 bad", "")
}

func TestStoreInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agentSession()
	expect(t, invoke(t, nil, "verify", "--store", w.dir), cli.StatusBad, "", "in use by another server")
	w.writer("more").append(&schemas.ErrorEvent{Code: "sample", Message: "a sample"})
	expect(t, w.replay("verify"), cli.StatusOK, "2 sessions, 0 bad", "")
}

func TestStoreThatIsNone(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	missing := filepath.Join(parent, "missing")
	expect(t, invoke(t, nil, "list", "--store", missing), cli.StatusBad, "", "is not the store of a runner")
	expect(t, invoke(t, nil, "list", "--store", parent), cli.StatusBad, "", "is not the store of a runner")
	left, err := os.ReadDir(parent)
	if err != nil || len(left) != 0 {
		t.Errorf("made %v, %v", left, err)
	}
}

func TestServerWithoutLogs(t *testing.T) {
	t.Parallel()
	s, err := embedded.Start(embedded.Options{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	expect(t, invoke(t, nil, "list", "--nats", s.ClientURL()), cli.StatusBad, "", "there is no stream AGENT_EVT")
	c, err := bus.Connect(t.Context(), bus.ConnOptions{InProcess: s})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for info := range c.JetStream().ListStreams(t.Context()).Info() {
		t.Errorf("made stream %s", info.Config.Name)
	}
}

func TestServerThatCannotBeReached(t *testing.T) {
	t.Parallel()
	var stdout, stderr strings.Builder
	code := run(t.Context(), []string{"list", "--nats", "nats://user:secret@127.0.0.1:1"}, outside(nil, &stdout, &stderr))
	expect(t, result{code, stdout.String(), stderr.String()}, cli.StatusBad, "",
		"no NATS server at 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused")
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(config, []byte("nats: nats://from-file:1\nprefix: team\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"LOOPBUS_NATS": "nats://from-env:1"}
	at := func(url, prefix string, o options) options {
		o.Connection.NATS, o.Connection.Prefix = url, prefix
		return o
	}
	for _, c := range []struct {
		args []string
		want options
	}{
		{[]string{"list"}, at("nats://from-env:1", "agent", options{})},
		{[]string{"list", "--store", "d"}, at("", "agent", options{where: where{Store: "d"}})},
		{[]string{"--store=d", "list", "--json"}, at("", "agent", options{where: where{Store: "d"}, json: true})},
		{[]string{"list", "--config", config, "--nats", "nats://x:1"}, at("nats://x:1", "team", options{})},
		{[]string{"show", "--lines", "5", "s1", "-full", "--at", "7"}, at("nats://from-env:1", "agent",
			options{lines: 5, full: true, at: moment{seq: 7}, sessions: []string{"s1"}})},
		{[]string{"verify", "a", "--json", "--", "-b"}, at("nats://from-env:1", "agent",
			options{json: true, sessions: []string{"a", "-b"}})},
		{[]string{"state", "s1", "--at", "2026-01-02T03:04:05+01:00"}, at("nats://from-env:1", "agent",
			options{at: moment{time: time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC)}, sessions: []string{"s1"}})},
	} {
		got, err := parse(c.args, func(k string) string { return env[k] })
		if err != nil {
			t.Errorf("%v: %v", c.args, err)
			continue
		}
		got.at.time, got.Config = got.at.time.UTC(), cli.Config{}
		if len(got.sessions) == 0 {
			got.sessions = nil
		}
		if d := cmp.Diff(c.want, got, unexported); d != "" {
			t.Errorf("%v (-want +got):\n%s", c.args, d)
		}
	}
}

// parse reads a command line and returns what it comes to.
func parse(args []string, getenv func(string) string) (o options, err error) {
	p := program()
	call, err := p.Parse(args, &cli.IO{Getenv: getenv, Stdout: io.Discard, Stderr: io.Discard})
	if err != nil {
		return o, err
	}
	g := p.Grammar.(*grammar)
	return map[string]interface{ options() options }{
		"list": &g.List, "show": &g.Show, "state": &g.State, "verify": &g.Verify, "export": &g.Export,
	}[call.Command].options(), nil
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"", "no command given"},
		{"lsit", `unknown command "lsit"`},
		{"list --what", "unknown flag --what"},
		{"list s1", "wrong number of arguments"},
		{"show", "wrong number of arguments: replay show SESSION"},
		{"show a b", "wrong number of arguments"},
		{"show a.b", "illegal subject"},
		{"show a.b", `"a.b"`},
		{"show s1 --at yesterday", `--at: "yesterday" is neither`},
		{"show s1 --at 0", `--at: "0" is neither`},
		{"show s1 --lines x", `"x" is not a whole number`},
		{"show s1 --follow --at 3", "--follow and --at cannot be combined"},
		{"show s1 --follow --store x", "--follow needs a running server"},
		{"list --store x --nats y", "--nats and --store cannot be combined"},
		{"list --prefix a..b", "--prefix"},
		{"export", "either a session or --all"},
		{"export s1 --all", "either a session or --all"},
		{"list --config /does/not/exist", "/does/not/exist"},
	} {
		got := invoke(t, nil, strings.Fields(c.args)...)
		expect(t, got, cli.StatusUsage, "", c.want)
		if got.stdout != "" {
			t.Errorf("%s: stdout %q", c.args, got.stdout)
		}
	}
}
