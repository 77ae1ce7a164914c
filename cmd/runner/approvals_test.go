package main

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// askingRunner is a world whose runner asks for approval of a command.
func askingRunner(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	start(t, nil, "--nats", w.url, "--id", "r1", "--model", "scripted", "--script", write(t, "script.json", askingScript),
		"--approve", "bash", "--http", "127.0.0.1:0", "--log-json").ready()
	return w
}

// Who answers at a terminal answers what was shown there: the command has the digest of the request.
func TestAnswersAtATerminalHaveTheDigest(t *testing.T) {
	t.Parallel()
	w := askingRunner(t)
	for session, c := range map[string]struct{ args, prompt, asks, answer, leave string }{
		"one":   {"run go", "", "approve it?", "y\n", ""},
		"other": {"run go", "", "approve it?", "n no\n", ""},
		"chat":  {"chat", "go\r", "waits for approval", "/y\r", "\x03"},
		"talk":  {"chat", "go\r", "waits for approval", "/n no\r", "\x03"},
	} {
		p := atTerminal(t, c.args+" --nats "+w.url+" --session "+session)
		p.types(c.prompt)
		p.sees(c.asks)
		p.types(c.answer)
		p.sees("no_tool_calls after 2 turns")
		p.types(c.leave)
		p.ends()
		digest, answered := "", 0
		for _, e := range w.until(session, 1, schemas.EventAgentEnd) {
			switch d := e.Data.(type) {
			case *schemas.ApprovalRequested:
				digest = d.Digest
			case *schemas.CommandAccepted:
				var answer schemas.ApprovalAnswer
				if d.Kind != schemas.CommandApprove && d.Kind != schemas.CommandDeny {
					continue
				}
				if answered++; json.Unmarshal(d.Data, &answer) != nil || digest == "" || answer.Digest != digest {
					t.Errorf("%s: the answer is %s, asked was with %q", session, d.Data, digest)
				}
			}
		}
		if answered != 1 {
			t.Errorf("%s: %d answers", session, answered)
		}
	}
}

// What was shown is not what waits: who answers is told so, and the call waits on.
func TestAnAnswerToWhatDoesNotWait(t *testing.T) {
	t.Parallel()
	w := askingRunner(t)
	w.prompt("s1")
	log := w.until("s1", 1, schemas.EventApprovalRequested)
	asked := log[len(log)-1].Data.(*schemas.ApprovalRequested)
	var mu sync.Mutex
	var said strings.Builder
	answers := func(line string, shown schemas.ApprovalRequested) {
		a := newApprover(bustest.Client(t, w.conn).Session("s1"), schemas.Subjects{}, &cli.IO{Stdin: strings.NewReader(line),
			Stderr: io.Discard}, func(text string) {
			mu.Lock()
			defer mu.Unlock()
			said.WriteString(text + "\n")
		})
		a.asks = true
		a.requested(t.Context(), shown)
	}
	other := *asked
	other.Args, other.Digest = []byte(`{"command":"true"}`), "sha256:"+strings.Repeat("0", 64)
	for _, line := range []string{"y\n", "n\n"} {
		answers(line, other)
	}
	refused := "call " + string(asked.Call) + " is not the one that was shown: look at the call again"
	eventually(t, "both answers are refused", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Count(said.String(), refused) == 2
	})
	answers("y\n", *asked)
	log = w.until("s1", 1, schemas.EventAgentEnd)
	answered := 0
	for _, e := range log {
		if d, ok := e.Data.(*schemas.ApprovalResolved); ok && d.Approved {
			answered++
		}
	}
	if answered != 1 {
		t.Errorf("%d answers in the log", answered)
	}
}

// A name that no tool has may be mistyped, or that of a tool whose worker starts later: the runner says so.
func TestServingSaysWhichApprovalsAreForNoTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := start(t, nil, "--nats", w.url, "--id", "r1", "--model", "scripted", "--script",
		write(t, "script.json", askingScript), "--tools", "ls", "--approve", "Bash,bash,ls,agent,later", "--http",
		"127.0.0.1:0", "--log-json")
	if got := p.logged("--approve names tools that nobody serves now; a name must be exact", "tools"); got !=
		"[Bash, did you mean bash? later]" {
		t.Errorf("it names %s", got)
	}
	for _, c := range []struct{ approve, tools, want []string }{
		{nil, nil, nil},
		{[]string{"bash", "agent", "session_branch"}, []string{"bash"}, nil},
		{[]string{"Bash", "*"}, nil, nil}, // all calls need an approval
		{[]string{"bash"}, nil, []string{"bash"}},
	} {
		var announced []schemas.ToolDefinition
		for _, name := range c.tools {
			announced = append(announced, schemas.ToolDefinition{Name: name})
		}
		if d := cmp.Diff(c.want, (&policy{Approve: c.approve}).unserved(announced)); d != "" {
			t.Errorf("%q with %q (-want +got):\n%s", c.approve, c.tools, d)
		}
	}
}
