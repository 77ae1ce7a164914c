package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// TestResumeAtEveryEvent takes every scenario that the durable state can express, stops after every event of its log,
// folds the prefix into a fresh state, continues with a fresh driver, and wants a legal end with the same transcript.
func TestResumeAtEveryEvent(t *testing.T) {
	t.Parallel()
	played := 0
	for _, dir := range []string{"conformance", "conformance-own"} {
		files, err := scenarioFiles(filepath.Join("testdata", dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			r, err := loadRecording(file)
			if err != nil {
				t.Fatal(err)
			}
			if !durable(r.Scenario) {
				continue
			}
			played++
			t.Run(r.Scenario.Name, func(t *testing.T) {
				t.Parallel()
				resumeEverywhere(t, r.Scenario)
			})
		}
	}
	if played < 80 {
		t.Errorf("only %d scenarios can be expressed: the filter is wrong", played)
	}
}

// durable reports whether a scenario consists of what a log contains: commands, replies, results and the decisions of
// hooks. Signals, assignments, failing listeners and hooks with their own memory are not in a log.
func durable(s scenario) bool {
	h := s.Hooks
	if h.GetAPIKey != nil || h.ShouldStopAfterTurn != nil || h.GetSteeringMessages != nil ||
		h.GetFollowUpMessages != nil || s.Aborted {
		return false
	}
	actions := slices.Clone(s.Do)
	for _, rule := range s.Inject {
		if rule.On.Every {
			return false
		}
		actions = append(actions, rule.Do...)
	}
	for _, a := range actions {
		switch {
		case a.Do == "prompt" && a.Background, a.Do == "prompt" && a.Messages != nil && len(a.Messages) == 0:
			return false
		case !slices.Contains([]string{"prompt", "continue", "steer", "followUp", "waitForIdle", "snapshot"}, a.Do):
			return false
		}
	}
	return !slices.ContainsFunc(s.Tools, func(t scriptedTool) bool { return t.PrepareArguments != nil })
}

// world is everything around a session but its log: it gives the same answers whenever it is asked the same.
type world struct {
	scenario
	log    []schemas.Event
	driver *driver.Driver
	onward func(e schemas.Event) // called with every event of this driver

	mu       sync.Mutex
	executed map[string]int
}

// start returns a driver on the state that a prefix of the log folds to.
func start(t *testing.T, s scenario, prefix []schemas.Event) *world {
	t.Helper()
	w := &world{scenario: s, log: slices.Clone(prefix), executed: make(map[string]int)}
	state := &loop.State{Session: "s1"}
	for _, e := range prefix {
		if err := state.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	p := newPlayer(s, nil)
	t.Cleanup(p.cancelLoop)
	w.driver = driver.New(driver.Options{
		Deps: driver.Deps{
			Model: w, Clock: stoppedClock{}, Hooks: p.hooks(), Source: "/loopbus/runner/test",
			OnEvent: func(e schemas.Event, _ *loop.State) {
				if w.onward != nil {
					w.onward(e)
				}
			},
		},
		Log: w, Rules: loop.Rules{IdleQueues: true}, Execute: w.execute,
		Configure: func(context.Context, string, loop.Settings) (schemas.RunConfig, error) {
			config := schemas.RunConfig{Model: p.model(), SystemPrompt: s.SystemPrompt, ThinkingLevel: s.ThinkingLevel,
				ToolExecution: s.ToolExecution}
			for _, tool := range p.tools(s.InitialTools) {
				config.Tools = append(config.Tools, tool.ToolDefinition)
			}
			return config, nil
		},
	}, state)
	return w
}

type stoppedClock struct{}

func (stoppedClock) Now() time.Time                              { return time.Unix(1_000_000, 0).UTC() }
func (stoppedClock) AfterFunc(time.Duration, func()) func() bool { return func() bool { return true } }

// Append uses the wire format, so that a session is resumed from what was stored.
func (w *world) Append(_ context.Context, e schemas.Event) error {
	header, payload, err := schemas.EncodeCommit(e)
	if err != nil {
		return err
	}
	stored, err := schemas.DecodeLog(e.Session, header, payload, nil)
	w.log = append(w.log, stored...)
	return err
}

func (w *world) Send() {}

func (w *world) Flush(context.Context) error { return nil }

func (w *world) Confirm(context.Context, time.Time) error { return nil }

func (w *world) Read(context.Context, uint64) iter.Seq2[schemas.Event, error] {
	return func(func(schemas.Event, error) bool) {}
}

// Stream answers by the number of replies in the transcript.
func (w *world) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	replies := -len(slices.DeleteFunc(slices.Clone(w.Messages), func(m schemas.Message) bool {
		return m.MessageRole() != schemas.RoleAssistant
	}))
	w.driver.View(func(s *loop.State) {
		for _, e := range s.Messages {
			if e.Message.MessageRole() == schemas.RoleAssistant {
				replies++
			}
		}
	})
	return func(yield func(schemas.StreamEvent, error) bool) {
		if replies >= len(w.LLM) {
			yield(schemas.StreamEvent{}, fmt.Errorf("no answer to model call %d", replies+1))
			return
		}
		r := w.LLM[replies]
		if r.Throw != nil {
			yield(schemas.StreamEvent{}, thrown(r.Throw))
			return
		}
		r.Events = slices.DeleteFunc(slices.Clone(r.Events), func(s streamStep) bool { return s.Wait != nil })
		(scriptedModel{newPlayer(w.scenario, nil)}).play(ctx, req.Model, r, yield)
	}
}

func (w *world) execute(_ context.Context, req schemas.ToolRequest, _ func(schemas.ToolResult)) (schemas.ToolResult,
	bool) {
	w.mu.Lock()
	w.executed[string(req.Call)]++
	w.mu.Unlock()
	return w.resultOf(req.ToolCallID)
}

func (w *world) resultOf(callID string) (schemas.ToolResult, bool) {
	for _, s := range w.ToolCalls[callID] {
		if s.Return != nil {
			return *s.Return, false
		}
		if s.Throw != nil {
			return schemas.ErrorResult(*s.Throw), true
		}
	}
	ok := schemas.TextResult("ok " + callID)
	ok.Details = json.RawMessage("{}")
	return ok, false
}

// commands returns the commands of the scenario in order, with the event that each waits for.
func (w *world) playAll(t *testing.T) {
	t.Helper()
	fired := make([]int, len(w.Inject))
	id := 0
	next := func() string { id++; return fmt.Sprintf("c%d", id) }
	var pending []schemas.Command
	w.onward = func(e schemas.Event) {
		for i, rule := range w.Inject {
			if matchesStored(rule.On, e) {
				if fired[i]++; fired[i] == rule.On.nth() {
					for _, a := range rule.Do {
						pending = append(pending, commandsOf(a, next)...)
					}
				}
			}
		}
	}
	take := func(c schemas.Command) {
		if _, err := w.driver.Accept(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range w.begin() {
		if err := w.driver.Append(t.Context(), m, ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range w.Do {
		for _, c := range commandsOf(a, next) {
			take(c)
			w.drive(t)
			for len(pending) > 0 { // what came during the run counts from after it: its own moment is another test's business
				take(pending[0])
				pending = pending[1:]
				w.drive(t)
			}
		}
	}
}

// begin returns the settings that a session of the scenario starts with.
func (w *world) begin() (events []schemas.EventData) {
	modes, err := json.Marshal(schemas.SetModes{SteeringMode: w.SteeringMode, FollowUpMode: w.FollowUpMode})
	if err != nil {
		panic(err)
	}
	events = append(events, &schemas.CommandAccepted{CommandID: "modes", Kind: schemas.CommandSetModes, Data: modes})
	if len(w.Messages) > 0 {
		events = append(events, &schemas.TranscriptReplaced{Messages: w.Messages})
	}
	return events
}

func (w *world) drive(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), watchdogTime)
	defer cancel()
	if err := w.driver.Drive(ctx); err != nil {
		t.Fatalf("drive: %v\nlog: %s", err, typesOf(w.log))
	}
	if err := w.driver.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

func commandsOf(a action, id func() string) (commands []schemas.Command) {
	add := func(data schemas.CommandData) {
		commands = append(commands, schemas.Command{ID: id(), Session: "s1", Data: data})
	}
	input := func(m ...schemas.Message) schemas.Input { return schemas.Input{Messages: m} }
	switch a.Do {
	case "prompt":
		in := input(a.prompts()...)
		if a.Messages == nil {
			in = schemas.Input{Text: a.Text, Images: a.images()}
		}
		add(&schemas.Prompt{Input: in})
	case "continue":
		add(&schemas.Continue{})
	case "steer":
		for _, m := range a.prompts() {
			add(&schemas.Steer{Input: input(m)})
		}
	case "followUp":
		for _, m := range a.prompts() {
			add(&schemas.FollowUp{Input: input(m)})
		}
	}
	return commands
}

func matchesStored(p pattern, e schemas.Event) bool {
	traced := tracedEvent{typ: e.Type()}
	switch d := e.Data.(type) {
	case *schemas.MessageStart:
		traced.role = d.Role
	case *schemas.MessageEnd:
		traced.role = d.Message.MessageRole()
	case *schemas.ToolExecutionStart:
		traced.callID = d.ToolCallID
	case *schemas.ToolExecutionEnd:
		traced.callID = d.ToolCallID
	}
	return p.matches(traced)
}

// resumeEverywhere plays the scenario once without a stop, and then from every prefix of its log that has all commands
// of the run it stops in.
func resumeEverywhere(t *testing.T, s scenario) {
	whole := start(t, s, nil)
	whole.playAll(t)
	checkLegal(t, whole.log)
	for n := len(whole.begin()); n < len(whole.log); n++ {
		later := laterCommands(whole.log[n:])
		w := start(t, s, whole.log[:n])
		w.drive(t)
		for _, c := range later { // redelivered by the queue
			if _, err := w.driver.Accept(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			w.drive(t)
		}
		if d := cmp.Diff(transcript(t, whole.log), transcript(t, w.log)); d != "" {
			t.Fatalf("stopped after %d of %d (%s), then another transcript (-whole +resumed):\n%s\nlog: %s",
				n, len(whole.log), whole.log[n-1].Type(), d, typesOf(w.log))
		}
		checkLegal(t, w.log)
		for call, times := range w.executed {
			if times > 1 {
				t.Errorf("stopped after %d: call %s was executed %d times by one process", n, call, times)
			}
		}
	}
}

// laterCommands returns the commands that a log accepts.
func laterCommands(log []schemas.Event) (commands []schemas.Command) {
	for _, e := range log {
		d, ok := e.Data.(*schemas.CommandAccepted)
		if !ok {
			continue
		}
		raw := d.Data
		if raw == nil {
			raw = json.RawMessage("{}")
		}
		data, err := schemas.DecodeCommandData(d.Kind, raw)
		if err == nil {
			commands = append(commands, schemas.Command{ID: d.CommandID, Session: "s1", Data: data})
		}
	}
	return commands
}

func transcript(t *testing.T, log []schemas.Event) (lines []string) {
	t.Helper()
	var state loop.State
	for _, e := range log {
		if err := state.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range state.Messages {
		raw, err := schemas.Marshal(e.Message)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(raw))
	}
	return lines
}

func typesOf(log []schemas.Event) string {
	types := make([]string, len(log))
	for i, e := range log {
		types[i] = string(e.Type())
	}
	return strings.Join(types, " ")
}

// checkLegal tests a finished log for what docs/architecture.md promises of every log.
func checkLegal(t *testing.T, log []schemas.Event) {
	t.Helper()
	if err := legal(log); err != nil {
		t.Errorf("%v\nlog: %s", err, typesOf(log))
	}
}

func legal(log []schemas.Event) error {
	running, turn := false, false
	open := make(map[schemas.CallKey]bool)
	accepted := make(map[string]bool)
	for i, e := range log {
		if e.Seq != uint64(i+1) {
			return fmt.Errorf("event %d has sequence %d", i+1, e.Seq)
		}
		var bad bool
		switch d := e.Data.(type) {
		case *schemas.AgentStart:
			bad, running = running, true
		case *schemas.AgentEnd:
			bad, running = !running || turn, false
		case *schemas.TurnStart:
			bad, turn = !running || turn, true
		case *schemas.TurnEnd:
			bad, turn = !turn || len(open) > 0, false
		case *schemas.ToolExecutionStart:
			open[schemas.NewCallKey(e.Seq)] = true
		case *schemas.ToolExecutionEnd:
			bad = !open[d.Call]
			delete(open, d.Call)
		case *schemas.CommandAccepted:
			bad = accepted[d.CommandID]
			accepted[d.CommandID] = true
		}
		if bad {
			return fmt.Errorf("event %d, %s, does not belong there", e.Seq, e.Type())
		}
	}
	if running || turn || len(open) > 0 {
		return errors.New("the log ends in the middle of a run")
	}
	return nil
}
