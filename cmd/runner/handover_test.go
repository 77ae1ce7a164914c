package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// bashCall is a response of a script that calls bash.
func bashCall(command string) string {
	raw, err := json.Marshal(map[string]any{"toolCalls": []any{map[string]any{"name": "bash",
		"arguments": map[string]string{"command": command}}}})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// stuck is a response that begins and then takes longer than any test.
const stuck = `{"events":[{"type":"start"},{"type":"text_start"},{"type":"text_delta","delta":"hal"},
		{"delayMs":600000},{"type":"done"}],
	"message":{"content":[{"type":"text","text":"half"}]}}`

// outcome is what a log says of its run.
type outcome struct {
	Ends, Resumed, ToolResults, Interrupted int
	Reason                                  schemas.TerminationReason
	Replies                                 []string
	Last                                    string // source of the last event
}

func outcomeOf(log []schemas.Event) (o outcome) {
	for _, e := range log {
		o.Last = e.Source
		switch d := e.Data.(type) {
		case *schemas.AgentEnd:
			o.Ends++
			o.Reason = d.TerminationReason
		case *schemas.RunResumed:
			o.Resumed++
		case *schemas.ToolExecutionEnd:
			o.ToolResults++
		case *schemas.MessageEnd:
			reply, ok := d.Message.Message.(*schemas.AssistantMessage)
			if ok && d.Interrupted {
				o.Interrupted++
			} else if ok {
				o.Replies = append(o.Replies, reply.Content.JoinText())
			}
		}
	}
	return o
}

func (o outcome) equal(other outcome) bool {
	replies := slices.Equal(o.Replies, other.Replies)
	return replies && o.Ends == other.Ends && o.Resumed == other.Resumed && o.ToolResults == other.ToolResults &&
		o.Interrupted == other.Interrupted && o.Reason == other.Reason && o.Last == other.Last
}

// A model call is under way when its runner goes. Another one takes the session up where the log ends: the tool is not
// called again, the reply is asked for again, and the run has one end. A runner that is asked to stop hands its
// sessions over at once; one that is killed is missed after the timeouts of the inbox.
func TestAnotherRunnerGoesOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		signal os.Signal
		within time.Duration // a stop is faster than every timeout there is
	}{
		{"after SIGTERM", syscall.SIGTERM, 3 * time.Second},
		{"after SIGKILL", syscall.SIGKILL, 15 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			call := bashCall("echo ran >> count")
			first := w.runner("first", "["+call+","+stuck+"]")
			w.prompt("s1")
			w.until("s1", 4, schemas.EventMessageStart) // prompt, call, result, and the reply that is stuck
			w.runner("second", "["+call+`,{"text":"done"}]`)
			gone := time.Now()
			first.signal(c.signal)
			w.until("s1", 1, schemas.EventAgentEnd)
			took := time.Since(gone)
			t.Logf("the run ended %s after the signal", took)
			if took > c.within {
				t.Errorf("the run ended %s after the signal, want within %s", took, c.within)
			}
			if c.signal == syscall.SIGTERM {
				first.wantExit(0)
			}
			if ended := time.Since(gone); ended > c.within {
				t.Errorf("the runner ended %s after the signal", ended)
			}
			w.settled("s1", outcome{
				Ends: 1, Resumed: 1, ToolResults: 1, Interrupted: 1, Reason: schemas.EndNoToolCalls,
				Replies: []string{"", "done"}, Last: "/loopbus/runner/second",
			})
			w.wantLines("count", 1)
		})
	}
}

// A session that waits for a tool is at rest: no runner has to take it over, and the result reaches the runner that
// reads the inbox.
func TestResultFindsAnotherRunner(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		signal os.Signal
	}{{"after SIGTERM", syscall.SIGTERM}, {"after SIGKILL", syscall.SIGKILL}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			script := "[" + bashCall("echo ran >> count; until [ -e go ]; do sleep 0.02; done") + `,{"text":"done"}]`
			first := w.runner("first", script)
			w.prompt("s1")
			eventually(t, "the command runs", func() bool {
				_, err := os.Stat(filepath.Join(w.root, "count"))
				return err == nil
			})
			w.runner("second", script)
			first.signal(c.signal)
			first.wait()
			if err := os.WriteFile(filepath.Join(w.root, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			w.until("s1", 1, schemas.EventAgentEnd)
			w.settled("s1", outcome{
				Ends: 1, ToolResults: 1, Reason: schemas.EndNoToolCalls, Replies: []string{"", "done"},
				Last: "/loopbus/runner/second",
			})
			w.wantLines("count", 1)
		})
	}
}
