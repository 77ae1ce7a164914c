package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// once runs the one-shot form of a runner with the rehearsal model in an empty directory.
func once(t *testing.T, args ...string) *process {
	t.Helper()
	return start(t, nil, append([]string{"--model", "rehearsal"}, args...)...)
}

func TestOneShotShowsTheRun(t *testing.T) {
	t.Parallel()
	p := once(t, "--session", "s1", "--prompt", "!echo one; echo two >&2").wantExit(0)
	const want = `you: !echo one; echo two >&2
Calling bash.
> bash {"command":"echo one; echo two >&2"}
  | one
  | two
  ok in TIME
bash: ok, 2 lines, 8 bytes.
  one
  two
session s1: no_tool_calls after 2 turns, N tokens, $0.0000, TIME
`
	got := regexp.MustCompile(`\d+ tokens`).ReplaceAllString(p.stdout.String(), "N tokens")
	got = regexp.MustCompile(`\b[0-9.]+m?s\b`).ReplaceAllString(got, "TIME")
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if strings.Contains(p.stdout.String()+p.stderr.String(), "\x1b") {
		t.Error("escape codes where there is no terminal")
	}
	if p.stderr.String() != "" {
		t.Errorf("stderr has %q", p.stderr.String())
	}
	if left, err := os.ReadDir(p.temp); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

func TestOneShotSaysWhichModelItUses(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "--prompt", "hello").wantExit(0)
	if got := p.stderr.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "No API key") ||
		!strings.Contains(got, "rehearsal") {
		t.Errorf("stderr has %q, want one line about the model", got)
	}
}

func TestOneShotPrintsCloudEvents(t *testing.T) {
	t.Parallel()
	p := once(t, "--json", "--session", "s1", "--prompt", "!ls").wantExit(0)
	var types []string
	for line := range strings.Lines(p.stdout.String()) {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if err := e.Validate(); err != nil || e.Subject() != "s1" || !json.Valid(e.Data()) {
			t.Errorf("%v in %s", err, line)
		}
		types = append(types, e.Type())
	}
	if len(types) == 0 || types[len(types)-1] != "dev.loopbus.agent_end.v1" {
		t.Errorf("the events are %q", types)
	}
	for _, want := range []string{"command_accepted", "agent_start", "message_end", "tool_execution_start",
		"tool_execution_end"} {
		if !slices.Contains(types, "dev.loopbus."+want+".v1") {
			t.Errorf("no %s among %q", want, types)
		}
	}
}

func TestOneShotExitCodes(t *testing.T) {
	t.Parallel()
	scripted := func(script string) []string {
		return []string{"--model", "scripted", "--script", write(t, "script.json", script)}
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"a normal end", []string{"--prompt", "!ls"}, 0, "no_tool_calls"},
		{"no prompt", []string{"run"}, 2, ""},
		{"a tool that fails", []string{"--prompt", "!false"}, 0, "failed in"},
		{"a reply that failed", append(scripted(`[{"message":{"content":[],"stopReason":"error",`+
			`"errorMessage":"overloaded"}}]`), "--max-retries", "0", "--prompt", "go"),
			1, "error: overloaded"},
		{"a reply that fails twice", append(scripted(`[{"fail":["529 overloaded","timeout"],"text":"third time lucky"}]`),
			"--retry-delay", "1ms", "--prompt", "go"), 0, "third time lucky"},
		{"too many turns", append(scripted(`{"loop":true,"responses":[{"toolCalls":[{"name":"ls"}]}]}`), "--max-turns", "2",
			"--prompt", "go"),
			1, "max_turns after 2 turns"},
		{"a silent model", append(scripted(`[{"events":[{"type":"start"},{"delayMs":600000},{"type":"done"}],`+
			`"message":{"content":[]}}]`),
			"--idle-timeout", "300ms", "--max-retries", "0", "--prompt", "go"), 1, "idle_timeout"},
		{"a prompt over the size of a command", []string{"--prompt", "go", "--attach",
			write(t, "big.txt", strings.Repeat("a\n", 300<<10))}, 0, "no_tool_calls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := once(t, c.args...).wantExit(c.code)
			if !strings.Contains(p.stdout.String(), c.says) {
				t.Errorf("%q is missing in:\n%.2000s", c.says, p.stdout.String())
			}
		})
	}
}

// A prompt that the session refuses is shown with its code, and is a failure.
func TestOneShotIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runner("r1", "["+stuck+"]")
	for range loop.MaxQueued {
		if _, err := w.conn.JetStream().PublishAsync("agent.cmd.s1.prompt", []byte("go")); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Within(t, w.conn.JetStream().PublishAsyncComplete())
	w.until("s1", 1, schemas.EventMessageStart)
	w.prompt("s1") // the first has begun the run, and waits no more
	p := start(t, nil, "run", "one too many", "--nats", w.url, "--session", "s1").wantExit(1)
	if got := p.stdout.String(); !strings.Contains(got, "rejected: 1000 inputs are queued already (queue_full)") {
		t.Errorf("the run shows:\n%s", got)
	}
}

// Every exit status of the package cli has its row, and no other has.
func TestExitStatusesAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n| exit status | |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var got []string
	for row := range strings.Lines(table) {
		got = append(got, strings.Fields(row)[1])
	}
	var want []string
	for _, status := range []int{cli.StatusOK, cli.StatusBad, cli.StatusUsage, cli.StatusUnanswered,
		cli.StatusInterrupted} {
		want = append(want, strconv.Itoa(status))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("docs/operations.md (-cli +document):\n%s", d)
	}
}

func TestOneShotIsInterrupted(t *testing.T) {
	t.Parallel()
	script := write(t, "script.json", `[{"events":[{"type":"start"},{"type":"text_start"},
		{"type":"text_delta","delta":"half"},{"delayMs":600000},{"type":"done"}],
		"message":{"content":[{"type":"text","text":"half"}]}}]`)
	p := start(t, nil, "--model", "scripted", "--script", script, "--prompt", "go")
	eventually(t, "the reply is streamed", func() bool { return strings.Contains(p.stdout.String(), "half") })
	p.signal(os.Interrupt)
	p.wantExit(130)
	if got := p.stderr.String(); !strings.Contains(got, "interrupt") {
		t.Errorf("stderr has %q", got)
	}
}

func TestOneShotGoesOnWithASession(t *testing.T) {
	t.Parallel()
	script := write(t, "script.json", `[{"text":"first answer"},{"text":"second answer"}]`)
	args := []string{"--model", "scripted", "--script", script, "--store", t.TempDir(), "--session", "s1", "--prompt"}
	for _, c := range []struct{ prompt, answer string }{{"one", "first answer"}, {"two", "second answer"}} {
		p := start(t, nil, append(args, c.prompt)...).wantExit(0)
		if got := p.stdout.String(); !strings.Contains(got, "you: "+c.prompt+"\n"+c.answer+"\n") {
			t.Errorf("the run shows:\n%s", got)
		}
	}
}
