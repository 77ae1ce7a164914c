//go:build unix

package anylanguage_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/schemas"
)

// The example in Go has a dozen lines; tools/worker does the rest.
func TestGo(t *testing.T) {
	t.Parallel()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	e := w.serve("dice", filepath.Join(dir, "dice"))
	e.called(`{"count":3,"sides":2}`, regexp.MustCompile(`^3 dice with 2 sides: [3-6]$`),
		regexp.MustCompile(`^\d dice: \d so far$`))
	e.called(`{}`, regexp.MustCompile(`^1 dice with 6 sides: [1-6]$`), regexp.MustCompile(`^1 dice: [1-6] so far$`))
	e.refused(`{"count":101}`, "count: must be <= 100")
	e.stopped()
}

func TestNode(t *testing.T) {
	t.Parallel()
	_, modules := os.Stat(example(t, "node", "node_modules", "@nats-io", "jetstream"))
	needs(t, "install Node.js 18 or later and run npm ci in docs/examples/node", program("node"), modules)
	w := newWorld(t)
	e := w.serve("countdown", "node", example(t, "node", "countdown.mjs"))
	e.called(`{"from":3,"everyMs":60}`, regexp.MustCompile(`^Counted down from 3\.$`),
		regexp.MustCompile(`^[1-3] \.\.\.$`))
	e.calledTwiceInOneReply(`{"from":2,"everyMs":60}`, "Counted down from 2.")
	e.calledWithoutSession(`{"from":2,"everyMs":60}`, "Counted down from 2.")
	e.refused(`{"from":0}`, "from: must be >= 1")
	e.cancelled(`{"from":1000,"everyMs":1000}`)
	e.malformed()
	e.stopped()
}

func TestShell(t *testing.T) {
	t.Parallel()
	needs(t, "install bash 5 and jq, and the nats command: go install -C docs/examples/shell "+
		"github.com/nats-io/natscli/nats",
		program("bash"), program("jq"), program("nats"))
	w := newWorld(t)
	e := w.serve("count", example(t, "shell", "count.sh"))
	e.called(`{"to":3,"everyMs":60}`, regexp.MustCompile(`^Counted up to 3\.$`), regexp.MustCompile(`^[1-3] \.\.\.$`))
	e.calledTwiceInOneReply(`{"to":2,"everyMs":60}`, "Counted up to 2.")
	e.calledWithoutSession(`{"to":2,"everyMs":60}`, "Counted up to 2.")
	e.refused(`{"to":0}`, "to: must be >= 1")
	e.cancelled(`{"to":1000,"everyMs":1000}`)
	e.malformed()
	e.stopped()
}

// calledWithoutSession makes a call as a gateway of MCP clients does.
func (e *served) calledWithoutSession(args, want string) {
	e.t.Helper()
	caller, err := dispatch.NewCaller(e.conn, dispatch.CallerOptions{ID: "gateway"})
	if err != nil {
		e.t.Fatal(err)
	}
	defer caller.Close()
	got, err := caller.Call(bustest.Deadline(e.t), "client", schemas.ToolDefinition{Name: e.tool}, []byte(args), nil)
	if err != nil {
		e.t.Fatal(err)
	}
	if text := got.Result.Content.JoinText(); got.IsError || text != want {
		e.t.Errorf("result %q, want %q", text, want)
	}
}
