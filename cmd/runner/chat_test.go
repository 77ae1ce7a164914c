package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

// Without a terminal the chat reads prompts as lines, each after the run before it, and ends with the last one.
func TestChatWithoutATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runner("r1", `[{"text":"first answer"},{"text":"second answer"},{"text":"third answer"}]`)
	var out strings.Builder
	chat := func(input string) string {
		out.Reset()
		p, _ := program()
		if err := p.Run(t.Context(), []string{"chat", "--nats", w.url, "--session", "s1"},
			ioOf(strings.NewReader(input), &out)); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	got := chat("one\n/modle x\ntwo\n")
	for _, want := range []string{"you: one\nfirst answer\n", "you: two\nsecond answer\n", "did you mean /model?"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	log := w.until("s1", 2, schemas.EventAgentEnd)
	if end := log[len(log)-1].Data.(*schemas.AgentEnd); end.TerminationReason != schemas.EndNoToolCalls {
		t.Errorf("the second run ended with %s", end.TerminationReason)
	}
	// Whoever comes back is shown what the log has, and goes on from there.
	const history = "you: one\nfirst answer\n"
	got = chat("three\n")
	if at := strings.Index(got, history); at < 0 || !strings.Contains(got[at:], "you: three\nthird answer\n") {
		t.Errorf("%q is missing, or what follows it, in:\n%s", history, got)
	}
}

// A line that starts no run holds up none of the others: a service may keep an input from all runs.
func TestChatWithInputsThatAreHandled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.conn.NATS().Subscribe("agent.hook.input", func(m *nats.Msg) {
		_ = m.Respond(fmt.Appendf(nil, `{"handled":%t,"by":"desk"}`, bytes.Contains(m.Data, []byte("for the desk"))))
	})
	if err := errors.Join(err, w.conn.NATS().Flush()); err != nil {
		t.Fatal(err)
	}
	script := write(t, "script.json", `[{"text":"said by the model"}]`)
	start(t, nil, "--nats", w.url, "--id", "r1", "--model", "scripted", "--script", script, "--hook", "input", "--http",
		"127.0.0.1:0", "--log-json").ready()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var out strings.Builder
	p, _ := program()
	io := ioOf(strings.NewReader("this is for the desk\nhello\nfor the desk too\n"), &out)
	if err := p.Run(ctx, []string{"chat", "--nats", w.url, "--session", "s1"}, io); err != nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, context.Cause(ctx))
	}
	const handled = "(no run gets this input: handled by input: desk)\n"
	before, after, ok := strings.Cut(out.String(), "you: hello\nsaid by the model\n")
	if !ok || !strings.HasSuffix(before, handled) || !strings.HasSuffix(after, handled) {
		t.Errorf("the chat shows:\n%s", out.String())
	}
}

// typist is somebody at a terminal, made by script(1), who runs the runner.
type typist struct {
	t     *testing.T
	stdin io.Writer
	out   *output
	cmd   *exec.Cmd
}

func atTerminal(t *testing.T, args string) *typist {
	t.Helper()
	path, err := exec.LookPath("script")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal("install script(1), which makes a terminal")
	} else if err != nil {
		t.Skip("there is no script(1) to make a terminal")
	}
	p := &typist{t: t, out: new(output), cmd: exec.CommandContext(t.Context(), path, "-qec", os.Args[0]+" "+args,
		"/dev/null")}
	p.cmd.Dir, p.cmd.Stdout = t.TempDir(), p.out
	p.cmd.Env = []string{asRunner + "=1", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir(), "TERM=dumb",
		"GORACE=atexit_sleep_ms=0"}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

func (p *typist) sees(text string) {
	p.t.Helper()
	eventually(p.t, text, func() bool { return strings.Contains(p.out.String(), text) })
}

func (p *typist) types(keys string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, keys); err != nil {
		p.t.Fatal(err)
	}
}

func (p *typist) ends() {
	p.t.Helper()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("%v\n%s", err, p.out.String())
	}
}

func TestChatOnATerminal(t *testing.T) {
	t.Parallel()
	script := write(t, "script.json", `[{"toolCalls":[{"name":"bash","arguments":{"command":"echo folded; echo away"}}]},
		{"text":"all done"},{"events":[{"type":"start"},{"type":"text_start"},{"type":"text_delta","delta":"half a line\n"},
		{"delayMs":600000},{"type":"done"}],"message":{"content":[{"type":"text","text":"half a line"}]}}]`)
	p := atTerminal(t, "chat --model scripted --script "+script+" --approve bash")
	p.sees("type a prompt, or /help for the commands")
	p.types("go on\r")
	p.sees("waits for approval: bash")
	p.types("mind the gap\r") // steers: it reaches the model with the call's result
	p.types("/y\r")
	p.sees("all done")
	before, _, _ := strings.Cut(p.out.String(), "all done")
	if !strings.Contains(before, "you: mind the gap") {
		t.Errorf("the steer did not reach the model before its reply:\n%s", p.out.String())
	}
	if got := p.out.String(); !strings.Contains(got, "ok: 2 lines (c") || strings.Contains(got, "| folded") {
		t.Errorf("the call is not folded:\n%s", got)
	}
	_, rest, _ := strings.Cut(p.out.String(), "ok: 2 lines (")
	call, _, _ := strings.Cut(rest, ")")
	p.types("/show " + call + "\r")
	p.sees("folded\r\n")
	p.types("more\r")
	p.sees("half a line")
	p.types("left over\r")
	eventually(t, "both steers are queued", func() bool { return strings.Count(p.out.String(), "queued: steer") == 2 })
	p.types("\x03")
	p.sees("abort_signal after")
	p.sees("queued for the next run: 1 steer; /clear withdraws them")
	p.types("/clear\r")
	p.sees("withdrew all queued inputs")
	p.types("\x03")
	p.ends()
}
