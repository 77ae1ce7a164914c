//go:build unix

package processes_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// steered has commands that are sent to a session while no runner is live and its tool runs, and their outcomes.
type steered struct {
	session  string
	commands []steer
	reason   schemas.TerminationReason
	said     []string // user messages
	replies  []string
	outcomes map[string]string // by the command's id
}

type steer struct {
	kind    schemas.CommandKind
	payload string
}

var unattended = []steered{
	{
		session: "queued",
		commands: []steer{
			{schemas.CommandSteer, `{"id":"x1","text":"left"}`},
			{schemas.CommandFollowUp, `{"id":"x2","text":"then"}`},
		},
		reason: schemas.EndNoToolCalls, said: []string{"go", "left", "then"}, replies: []string{"", "went left", "and then"},
		outcomes: map[string]string{"x1": "command_applied", "x2": "command_applied"},
	},
	{
		session: "cancelled",
		commands: []steer{
			{schemas.CommandSteer, `{"id":"x1","text":"left"}`},
			{schemas.CommandCancelInput, `{"id":"x2","inputId":"x1"}`},
			{schemas.CommandCancelInput, `{"id":"x3","inputId":"none"}`},
		},
		reason: schemas.EndNoToolCalls, said: []string{"go"}, replies: []string{"", "done"},
		outcomes: map[string]string{"x1": "command_withdrawn by x2", "x2": "command_applied", "x3": "command_rejected"},
	},
	{
		session: "cleared",
		commands: []steer{
			{schemas.CommandSteer, `{"id":"x1","text":"left"}`},
			{schemas.CommandFollowUp, `{"id":"x2","text":"then"}`},
			{schemas.CommandClearQueue, `{"id":"x3"}`},
		},
		reason: schemas.EndNoToolCalls, said: []string{"go"}, replies: []string{"", "done"},
		outcomes: map[string]string{"x1": "command_withdrawn by x3", "x2": "command_withdrawn by x3",
			"x3": "command_applied"},
	},
	{
		session: "interrupted",
		commands: []steer{
			{schemas.CommandPrompt, `{"id":"x1","text":"left","whenBusy":"interrupt"}`},
			{schemas.CommandPrompt, `{"id":"x2","text":"then","whenBusy":"interrupt"}`},
		},
		reason: schemas.EndAbort, said: []string{"go", "then"}, replies: []string{"", "and then"},
		outcomes: map[string]string{"x1": "command_superseded by x2", "x2": "command_applied"},
	},
	{
		session:  "aborted",
		commands: []steer{{schemas.CommandAbort, `{"id":"x1","reason":"enough"}`}},
		reason:   schemas.EndAbort, said: []string{"go"}, replies: []string{""},
		outcomes: map[string]string{"x1": "command_applied"},
	},
}

// listening is the script of the model for these cases.
var listening = script{
	"go": {calls(bash(held("ran"))), text("done")}, "left": {text("went left")}, "then": {text("and then")},
}

// TestSteeringWithoutARunner sends commands while no runner is live: only the stream acknowledges them. The next runner
// applies all of them.
func TestSteeringWithoutARunner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.toolworker("w1", nil)
	first := w.runner("first", listening, nil)
	for _, s := range unattended {
		w.prompt(s.session, "go")
	}
	w.awaitRuns(len(unattended))
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, s := range unattended {
		for _, c := range s.commands {
			w.publish(s.session, c.kind, "", c.payload)
		}
	}
	w.runner("second", listening, nil, "--abort-grace", "30s")
	for _, s := range unattended {
		for _, c := range s.commands {
			id, _, err := schemas.ParseCommand(c.kind, []byte(c.payload))
			if err != nil {
				t.Fatal(err)
			}
			w.until(s.session, "command "+id, func(e schemas.Event) bool { return e.CausationID == id })
		}
	}
	w.write("go", "")
	for _, s := range unattended {
		t.Run(s.session, func(t *testing.T) { s.check(t, w.ended(s.session)) })
	}
}

// awaitRuns waits until this many calls are running.
func (w *world) awaitRuns(n int) {
	w.t.Helper()
	system.Eventually(w.t, fmt.Sprintf("%d tools run", n), func() bool { return w.counted("count")["ran"] == n })
}

func (s steered) check(t *testing.T, log []schemas.Event) {
	if got := system.Reasons(log)[0]; got != s.reason {
		t.Errorf("the run ended with %s, want %s", got, s.reason)
	}
	if d := cmp.Diff(s.said, system.Said(log)); d != "" {
		t.Errorf("user messages (-want +got):\n%s", d)
	}
	var replies []string
	for _, r := range system.Replied(log) {
		if r != "" || len(replies) == 0 { // an aborted run ends with an empty reply
			replies = append(replies, r)
		}
	}
	if d := cmp.Diff(s.replies, replies); d != "" {
		t.Errorf("replies (-want +got):\n%s", d)
	}
	outcomes := outcomesOf(log)
	for id := range outcomes {
		if id[0] != 'x' {
			delete(outcomes, id)
		}
	}
	if d := cmp.Diff(s.outcomes, outcomes); d != "" {
		t.Errorf("outcomes (-want +got):\n%s", d)
	}
}

// outcomesOf returns the outcomes of commands by id. A second outcome of a command is appended to the first.
func outcomesOf(log []schemas.Event) map[string]string {
	all := map[string]string{}
	for _, e := range log {
		switch d := e.Data.(type) {
		case *schemas.CommandApplied:
			all[d.CommandID] += string(e.Type())
		case *schemas.CommandRejected:
			all[d.CommandID] += string(e.Type())
		case *schemas.CommandSuperseded:
			all[d.CommandID] += string(e.Type()) + " by " + d.By
		case *schemas.CommandWithdrawn:
			all[d.CommandID] += string(e.Type()) + " by " + d.By
		}
	}
	return all
}

// TestTheSameCommandAgain sends each command several times: within the stream's duplicate window, after it, and to the
// next runner. The command takes effect once.
func TestTheSameCommandAgain(t *testing.T) {
	t.Parallel()
	const window = 200 * time.Millisecond
	w := newWorldOn(t, system.StartServer(t, false).ClientURL(), streams.Options{DuplicateWindow: window})
	w.toolworker("w1", nil)
	first := w.runner("first", listening, nil)
	prompt := steer{schemas.CommandPrompt, `{"id":"p1","text":"go"}`}
	commands := []steer{
		prompt,
		{schemas.CommandSteer, `{"id":"x1","text":"left"}`},
		{schemas.CommandFollowUp, `{"id":"x2","text":"then"}`},
		{schemas.CommandCancelInput, `{"id":"x3","inputId":"x2"}`},
	}
	w.publish("s1", prompt.kind, "p1", prompt.payload)
	w.awaitRuns(1)
	for range 2 {
		for _, c := range commands {
			w.sendAgain("s1", c)
		}
	}
	w.until("s1", "the last command", func(e schemas.Event) bool { return e.CausationID == "x3" })
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	w.runner("second", listening, nil)
	w.write("go", "")
	before := w.ended("s1")
	for _, c := range commands {
		w.sendAgain("s1", c)
	}
	log := w.ended("s1")
	if len(log) != len(before) {
		t.Errorf("the repeated commands have added %v", system.TypesOf(log[len(before):]))
	}
	want := steered{
		reason: schemas.EndNoToolCalls, said: []string{"go", "left"}, replies: []string{"", "went left"},
		outcomes: map[string]string{"x1": "command_applied", "x2": "command_withdrawn by x3", "x3": "command_applied"},
	}
	want.check(t, log)
	if d := cmp.Diff(map[string]int{"ran": 1}, w.counted("count")); d != "" {
		t.Errorf("executions (-want +got):\n%s", d)
	}
}

// sendAgain sends a command with the same message id until the stream no longer recognises it as a duplicate.
func (w *world) sendAgain(session string, c steer) {
	w.t.Helper()
	id, _, err := schemas.ParseCommand(c.kind, []byte(c.payload))
	if err != nil {
		w.t.Fatal(err)
	}
	system.Eventually(w.t, "the stream has forgotten "+id, func() bool {
		return !w.publish(session, c.kind, id, c.payload).Duplicate
	})
}
