package integration_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// big is a tool whose result is too large for a message of the log.
var big = tools.Tool{
	ToolDefinition: schemas.ToolDefinition{Name: "big"},
	Execute: func(context.Context, tools.Call) (schemas.ToolResult, error) {
		return schemas.TextResult(strings.Repeat("<\u00e9\u2028&> ", 40<<10)), nil
	},
}

// manyThings is a model whose conversation writes all kinds of events that need no command.
func manyThings() *scripted.Model {
	return scripted.New(
		scripted.Calls("Looking.", schemas.ToolCall{Name: "echo", Arguments: json.RawMessage(`{ "v" : "<\u00e9>" }`)},
			schemas.ToolCall{Name: "big"}),
		scripted.Calls("", schemas.ToolCall{Name: "nothing"},
			schemas.ToolCall{Name: "echo", Arguments: json.RawMessage(`{"v":[1]}`)}),
		scripted.Text("Done."), scripted.Text("And again."), scripted.Text("Once more."),
	)
}

// The log of a runner verifies: it has no gap, it matches the schemas, its hashes chain, its large payloads exist, and
// folding it gives, byte for byte, the state that the runner saved.
func TestLogOfARunnerVerifies(t *testing.T) {
	t.Parallel()
	s := system.StartAlone(t, system.Options{Model: manyThings(), Tools: []tools.Tool{big}, SnapshotEvery: 1})
	var log []schemas.Event
	for i, text := range []string{"look", "look again"} {
		s.Prompted(t, "s1", text, i+1)
		s.EmptyInbox(t)
		s.Send(t, "s1", &schemas.Abort{}) // rejected: no run is active
		s.Send(t, "s1", &schemas.SetThinkingLevel{ThinkingLevel: "high"})
		s.Publish(t, "s1", schemas.CommandPrompt, `{"text":`)
		s.EmptyInbox(t)
		report := s.Verify(t, "s1")
		log = s.LogOf(t, "s1")
		if report.Events != uint64(len(log)) || report.Blobs == 0 {
			t.Errorf("report %+v of %d events", report, len(log))
		}
		if report.Snapshot == 0 {
			t.Error("no snapshot was checked")
		}
	}
	if got := system.Replied(log); !slices.Equal(got, []string{"Looking.", "", "Done.", "And again."}) {
		t.Errorf("replies %q", got)
	}
}

// A runner that loads a snapshot and the events after it has the same state as one that folds the whole log, and it
// continues from there.
func TestSnapshotAndTailAreTheLog(t *testing.T) {
	t.Parallel()
	server := system.StartServer(t, false)
	t.Run("first runner", func(t *testing.T) {
		s := system.Start(t, server.ClientURL(), system.Options{Model: manyThings(), Tools: []tools.Tool{big},
			SnapshotEvery: 1})
		s.Prompted(t, "s1", "look", 1)
		s.EmptyInbox(t)
	})
	s := system.Start(t, server.ClientURL(), system.Options{Model: manyThings(), Tools: []tools.Tool{big}})
	s.Prompted(t, "s1", "look again", 2)
	s.EmptyInbox(t)
	if report := s.Verify(t, "s1"); report.Snapshot == 0 || report.Snapshot == report.Events {
		t.Errorf("the snapshot is of event %d of %d, want one before the end", report.Snapshot, report.Events)
	}
	whole, tail := loop.State{Session: "s1"}, snapshot(t, s, "s1")
	for _, e := range s.LogOf(t, "s1") {
		for _, state := range []*loop.State{&whole, &tail} {
			if e.Seq <= state.Seq {
				continue
			}
			if err := state.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	if d := cmp.Diff(jsonOf(t, whole), jsonOf(t, tail)); d != "" {
		t.Errorf("state (-log +snapshot and tail):\n%s", d)
	}
	var texts []string
	for _, m := range tail.Transcript() {
		if user, ok := m.(*schemas.UserMessage); ok {
			texts = append(texts, user.Content.JoinText())
		}
	}
	if !slices.Equal(texts, []string{"look", "look again"}) {
		t.Errorf("the transcript has %q", texts)
	}
}

// snapshot returns the newest saved state of a session.
func snapshot(t *testing.T, s *system.System, session string) (state loop.State) {
	t.Helper()
	log, err := s.Store.Open(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	raw, seq, err := log.Snapshot(t.Context(), loop.FoldVersion)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &state); err != nil || state.Seq != seq {
		t.Fatalf("snapshot at %d: %v, of event %d", seq, err, state.Seq)
	}
	return state
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
