package main

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// parse reads a command line without a command.
func parse(args []string, getenv func(string) string) (*defaultCommand, error) {
	p, g := program()
	_, err := p.Parse(args, &cli.IO{Getenv: getenv, Stdout: io.Discard, Stderr: io.Discard})
	return &g.Default, err
}

func TestMistakesAreReportedAtOnceAndNothingStarts(t *testing.T) {
	t.Parallel()
	p := start(t, []string{"LOOPBUS_THINKING=deeply", "LOOPBUS_MAX_COST=much"},
		"--config", write(t, "c.yaml", "colour: red\nconcurrency: 0\n"), "--store", "data", "--partitions", "0", "--replicas",
		"2",
		"--model", "scripted", "--script", "no-such.json", "--tools", "read,sing", "--root", "nowhere", "--http", "here",
		"--prefix", "a b",
		"--listen", "127.0.0.1", "--creds", "none.creds", "--otlp", "collector", "--id", "a.b", "--json", "--log-level",
		"loud",
		"--max-turns", "-1", "--takeover", "100ms").wantExit(2)
	got := p.stderr.String()
	for _, want := range []string{
		"--thinking", "LOOPBUS_MAX_COST", `unknown setting "colour"`, "--concurrency", "--partitions", "--replicas",
		"--script",
		`"sing"`, "--root", "--http", "--prefix", "--listen", "--creds", "--otlp", "--id", "--session and --json",
		"--log-level", "--max-turns", "--takeover",
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%s is not named once in:\n%s", want, got)
		}
	}
	if lines := strings.Count(got, "\n"); lines != 19 {
		t.Errorf("%d lines for 19 mistakes:\n%s", lines, got)
	}
	if files, err := os.ReadDir(p.cmd.Dir); err != nil || len(files) > 0 {
		t.Errorf("something was started: %v, %v", files, err)
	}
}

// A limit of 0 for sub-agents is refused: who writes it wants none, and in a stored configuration it is the default.
func TestLimitsOfSubagents(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	o, err := parse(nil, none)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := o.Options.Limits.subagents(), (schemas.SubagentPolicy{}).WithDefaults(); !cmp.Equal(got, want) {
		t.Errorf("the defaults differ from those of schemas: %s", cmp.Diff(want, got))
	}
	for _, flag := range []string{"--subagent-depth", "--subagents-open", "--subagents-per-run"} {
		if _, err := parse([]string{flag, "1"}, none); err != nil {
			t.Error(err)
		}
		if _, err := parse([]string{flag, "0"}, none); err == nil ||
			!strings.Contains(err.Error(), flag+": must be at least 1; to allow no sub-agents, leave agent out of") {
			t.Errorf("%s 0: %v", flag, err)
		}
	}
	if _, err := parse(nil, func(name string) string {
		return map[string]string{"LOOPBUS_SUBAGENT_DEPTH": "0"}[name]
	}); err == nil {
		t.Error("a depth of 0 from the environment is accepted")
	}
}

func TestNoOtherServerBesideNATS(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--listen", "127.0.0.1:0"}, {"--store", "data"}, {"--sync-always"},
		{"--sync-interval", "5s"}} {
		p := start(t, nil, append(args, "--nats", "nats://127.0.0.1:1")...).wantExit(2)
		if got := p.stderr.String(); !strings.Contains(got, args[0]) || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: stderr has %q", args[0], got)
		}
	}
}

func TestReplicasNeedACluster(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "--replicas", "3").wantExit(2)
	if got := p.stderr.String(); !strings.Contains(got, "--replicas: 3 need a cluster") || strings.Count(got, "\n") != 1 {
		t.Errorf("stderr has %q", got)
	}
}

// The short help of a command can be seen at once; help --all has the rest.
func TestTheShortHelpIsShort(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"help", "serve --help", "run --help", "chat --help"} {
		p := start(t, nil, strings.Fields(args)...).wantExit(0)
		flags := 0
		for line := range strings.Lines(p.stdout.String()) {
			if strings.HasPrefix(line, "  --") {
				flags++
			}
		}
		if flags == 0 || flags > 25 {
			t.Errorf("runner %s shows %d flags, want at most 25", args, flags)
		}
	}
}

func TestHelpHasALineForEachFlag(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "help", "--all").wantExit(0)
	lines := map[string]int{}
	for line := range strings.Lines(p.stdout.String()) {
		if flag, ok := strings.CutPrefix(line, "  --"); ok {
			name, help, _ := strings.Cut(flag, " ")
			if lines[name]++; len(strings.TrimSpace(help)) < 5 {
				t.Errorf("--%s has no help", name)
			}
		}
	}
	for _, name := range []string{"nats", "listen", "store", "model", "session", "prompt", "json", "config", "tools",
		"root", "http",
		"run-timeout", "idle-timeout", "max-turns", "max-cost", "max-tokens", "takeover"} {
		if lines[name] != 1 {
			t.Errorf("--%s has %d lines", name, lines[name])
		}
	}
	if p.stderr.String() != "" {
		t.Errorf("stderr has %q", p.stderr.String())
	}
}

func TestFlagsGoBeforeEnvironmentAndFile(t *testing.T) {
	t.Parallel()
	file := write(t, "c.yaml", "model: rehearsal\nthinking: low\nmax-turns: 3\nid: of-the-file\nidle-timeout: "+
		"5s\ntools: [ls]\nprompt: hello\n")
	env := map[string]string{"LOOPBUS_CONFIG": file, "LOOPBUS_MAX_TURNS": "4", "LOOPBUS_ID": "of-the-environment"}
	read, err := parse([]string{"--id", "of-the-flag"}, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	o, prompt := &read.Options, read.Once.Prompt
	type chosen struct {
		ID, Model, Thinking, Prompt string
		Turns                       int
		Idle, Run                   time.Duration
		Tools                       []string
	}
	want := chosen{"of-the-flag", "rehearsal", "low", "hello", 4, 5 * time.Second, 48 * time.Hour, []string{"ls"}}
	got := chosen{o.Server.ID, o.Models.Model, o.Models.Thinking, prompt, o.Limits.MaxTurns, o.Limits.IdleTimeout,
		o.Limits.RunTimeout, o.Tools.Tools}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if !o.once || o.Observe.HTTP != "off" || o.Server.Store != "" {
		t.Errorf("a prompt in the file is no one-shot: http %q, store %q", o.Observe.HTTP, o.Server.Store)
	}
}

// A pattern that no tool's name can be would let calls pass without the approval that somebody wanted.
func TestApproveTakesWholeNames(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	if _, err := parse([]string{"--approve", "bash,zoo_echo,Bash"}, none); err != nil {
		t.Error(err)
	}
	if _, err := parse([]string{"--approve", "*"}, none); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"ba*", "mcp.*"} {
		if _, err := parse([]string{"--approve", "read," + name}, none); err == nil ||
			!strings.Contains(err.Error(), "--approve: no tool has the name") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
