package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

var update = flag.Bool("update", false, "rewrite testdata/outcomes.txt")

// outcomes has sessions in every state, and sends commands to them.
type outcomes struct {
	*system.System
	t      *testing.T
	states []sessionState
	goOn   chan struct{} // closed when models and tools may continue

	mu  sync.Mutex
	got map[string]map[string]string // outcomes of commands, by kind and state of the session
}

// sessionState is a state of a session, and how the test brings a session to it.
type sessionState struct {
	name  string
	enter func(session string)
}

// Texts for which the model of [outcomes] does not simply answer.
const (
	thinks, callsTool, asksApproval, fails = "think", "call a tool", "ask for approval", "fail"
)

// Stream is the model.
func (w *outcomes) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		reply := &schemas.AssistantMessage{StopReason: schemas.StopStop, API: req.Model.API, Provider: req.Model.Provider,
			Model: req.Model.ID, Usage: schemas.Usage{Input: 1, Output: 1, TotalTokens: 2}}
		if !yield(schemas.StreamEvent{Type: schemas.StreamStart, Message: reply}, nil) {
			return
		}
		said := ""
		if m, ok := req.Messages[len(req.Messages)-1].(*schemas.UserMessage); ok {
			said = m.Content.JoinText()
		}
		if strings.Contains(req.SystemPrompt, "summaries") {
			said = thinks
		}
		switch said {
		case thinks:
			select {
			case <-w.goOn:
			case <-ctx.Done():
				yield(schemas.StreamEvent{}, ctx.Err())
				return
			}
		case fails:
			reply.StopReason, reply.ErrorMessage = schemas.StopError, "overloaded"
			yield(schemas.StreamEvent{Type: schemas.StreamError, Message: reply, FailureCode: schemas.FailureOverloaded}, nil)
			return
		case callsTool, asksApproval:
			reply.StopReason = schemas.StopToolUse
			name := map[string]string{callsTool: "slow", asksApproval: "guarded"}[said]
			reply.Content = schemas.Contents{schemas.ToolCall{ID: "t1", Name: name, Arguments: json.RawMessage(`{}`)}}
		}
		if reply.StopReason == schemas.StopStop {
			reply.Content = schemas.Contents{schemas.Text{Text: "well"}}
		}
		yield(schemas.StreamEvent{Type: schemas.StreamDone, Message: reply}, nil)
	}
}

func newOutcomes(t *testing.T) *outcomes {
	w := &outcomes{t: t, goOn: make(chan struct{}), got: map[string]map[string]string{}}
	slow := func(ctx context.Context, _ tools.Call) (schemas.ToolResult, error) {
		select {
		case <-w.goOn:
		case <-ctx.Done():
		}
		return schemas.TextResult("done"), ctx.Err()
	}
	w.System = system.StartAlone(t, system.Options{Model: w,
		Tools: []tools.Tool{{ToolDefinition: schemas.ToolDefinition{Name: "slow"}, Execute: slow},
			{ToolDefinition: schemas.ToolDefinition{Name: "guarded"}, Execute: slow}},
		Host: func(h *host.Options) {
			h.Defaults.Approval.Tools = []string{"guarded"}
			h.Defaults.Retry = schemas.RetryPolicy{MaxRetries: 2, BaseDelayMs: time.Hour.Milliseconds(),
				MaxDelayMs: time.Hour.Milliseconds()}
			h.Defaults.Compaction = schemas.CompactionPolicy{KeepRecentTokens: 10}
		}})
	until := func(text string, last schemas.EventType) func(string) {
		return func(session string) {
			w.Prompt(t, session, text)
			w.Until(t, session, string(last), func(e schemas.Event) bool { return e.Type() == last })
		}
	}
	idle := until("hello", schemas.EventAgentEnd)
	w.states = []sessionState{
		{"unknown", func(string) {}},
		{"idle", idle},
		{"model", until(thinks, schemas.EventCommandApplied)},
		{"tools", until(callsTool, schemas.EventToolExecutionStart)},
		{"approval", until(asksApproval, schemas.EventApprovalRequested)},
		{"retry", until(fails, schemas.EventAutoRetryStart)},
		{"compacting", func(session string) {
			until(strings.Repeat("long ", 100), schemas.EventAgentEnd)(session)
			w.Prompted(t, session, strings.Repeat("longer ", 100), 2)
			w.Send(t, session, &schemas.Compact{})
			w.Until(t, session, "the compaction", func(e schemas.Event) bool { return e.Type() == schemas.EventCompactionStart })
		}},
		{"deleted", func(session string) {
			idle(session)
			system.Eventually(t, session+" is deleted", func() bool {
				_, err := w.Deleter.Delete(t.Context(), retention.Request{Session: session})
				return err == nil
			})
		}},
	}
	return w
}

// silent are kinds without an outcome of their own, which clients do not send: the outcome of a result is that of its
// call, and a result for a call that has ended or does not exist changes nothing.
var silent = []schemas.CommandKind{schemas.CommandToolResult}

// commands returns one command of each kind, and one prompt for each value of whenBusy.
func commands(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{
		"prompt steer":     []byte(`{"text":"hi","whenBusy":"steer"}`),
		"prompt follow_up": []byte(`{"text":"hi","whenBusy":"follow_up"}`),
		"prompt interrupt": []byte(`{"text":"hi","whenBusy":"interrupt"}`),
		"prompt reject":    []byte(`{"text":"hi","whenBusy":"reject"}`),
		"prompt":           []byte(`{"text":"hi"}`), "unheard_of": []byte(`{}`), "steer plain": []byte("hi"),
	}
	dirs, err := filepath.Glob("../schemas/testdata/commands/*")
	if err != nil || len(dirs) < 20 {
		t.Fatalf("%d kinds of commands, %v", len(dirs), err)
	}
	for _, dir := range dirs {
		kind := filepath.Base(dir)
		data, err := os.ReadFile(filepath.Join(dir, "valid.json"))
		if !schemas.KnownCommand(schemas.CommandKind(kind)) || err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		if kind != "prompt" {
			all[kind] = data
		}
	}
	return all
}

// sending is one command that was sent.
type sending struct {
	w                        *outcomes
	name, id, session, state string
	payload                  []byte
	answers                  *nats.Subscription
}

func (w *outcomes) sending(name string, payload []byte, state, session string) *sending {
	sub, err := w.Client.NATS().SubscribeSync(nats.NewInbox())
	if err != nil {
		w.t.Fatal(err)
	}
	return &sending{w, name, "the command/" + name, session, state, payload, sub}
}

func (s *sending) kind() schemas.CommandKind {
	kind, _, _ := strings.Cut(s.name, " ")
	return schemas.CommandKind(kind)
}

func (s *sending) publish() {
	m := nats.NewMsg(s.w.Client.Subjects().Command(s.session, s.kind()))
	m.Data = s.payload
	for name, value := range map[string]string{schemas.HeaderSpecVersion: schemas.SpecVersion, schemas.HeaderID: s.id,
		schemas.HeaderSource: "/test", schemas.HeaderType: schemas.CloudEventType(s.kind())} {
		m.Header.Set(name, schemas.EncodeHeaderValue(value))
	}
	if !bytes.HasPrefix(s.payload, []byte("{")) {
		m.Header.Set(schemas.HeaderDataContentType, "text/plain")
	}
	m.Header.Set(schemas.HeaderReply, schemas.ReplyOutcome)
	m.Header.Set(schemas.HeaderReplyTo, s.answers.Subject)
	if _, err := s.w.Client.JetStream().PublishMsg(s.w.t.Context(), m); err != nil {
		s.w.t.Errorf("%s, %s: %v", s.state, s.name, err)
	}
}

// answer returns the outcome that the sender receives.
func (s *sending) answer() (what string) {
	if slices.Contains(silent, s.kind()) {
		return "silent"
	}
	m, err := s.answers.NextMsg(system.Deadline)
	if err != nil {
		s.w.t.Errorf("%s, %s: no outcome was received: %v", s.state, s.name, err)
		return "nothing"
	}
	var e struct {
		Type string `json:"type"`
		Data struct {
			CommandID string             `json:"commandId"`
			Code      schemas.RejectCode `json:"code"`
			Reason    string             `json:"reason"`
		} `json:"data"`
	}
	if err := json.Unmarshal(m.Data, &e); err != nil || e.Data.CommandID != s.id {
		s.w.t.Errorf("%s, %s: received %s, %v", s.state, s.name, m.Data, err)
	}
	if e.Type == schemas.CloudEventType(schemas.CommandKind(schemas.EventCommandRejected)) {
		if e.Data.Code == schemas.RejectInternal || e.Data.Code == schemas.RejectDelivery || e.Data.Reason == "" {
			s.w.t.Errorf("%s, %s: rejected with %+v", s.state, s.name, e.Data)
		}
		return string(e.Data.Code)
	}
	return "accepted"
}

// twice waits for the outcome of a command, sends the command again, and compares the outcomes.
func (s *sending) twice(again func()) {
	first := s.answer()
	again()
	if second := s.answer(); second != first {
		s.w.t.Errorf("%s, %s: %s, and sent again %s", s.state, s.name, first, second)
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.w.got[s.name] == nil {
		s.w.got[s.name] = map[string]string{}
	}
	s.w.got[s.name][s.state] = first
}

// ended checks that the log has one outcome of the command, and not more than one of the command before it.
func (s *sending) ended() {
	want := 1
	if slices.Contains(silent, s.kind()) {
		want = 0
	}
	var accepted, outcomes int
	system.Eventually(s.w.t, s.session+" has the outcome of "+s.name, func() bool {
		accepted, outcomes = 0, 0
		for _, e := range s.w.LogOf(s.w.t, s.session) {
			switch d := e.Data.(type) {
			case *schemas.CommandAccepted:
				accepted += count(d.CommandID == s.id)
			case *schemas.CommandApplied:
				outcomes += count(d.CommandID == s.id)
			case *schemas.CommandRejected:
				outcomes += count(d.CommandID == s.id)
			case *schemas.CommandSuperseded:
				outcomes += count(d.CommandID == s.id)
			case *schemas.CommandWithdrawn:
				outcomes += count(d.CommandID == s.id)
			}
		}
		return outcomes >= want
	})
	if accepted > want || outcomes != want {
		s.w.t.Errorf("%s, %s: accepted %d times, %d outcomes, want %d", s.state, s.name, accepted, outcomes, want)
	}
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// In every state of a session, the sender of a command receives its outcome, and receives the same outcome when it
// sends the command again. When the session is at rest the log has one outcome of each command. testdata/outcomes.txt
// has the outcomes by command and state; -update rewrites it.
func TestNoCommandEndsWithoutAnOutcome(t *testing.T) {
	t.Parallel()
	w := newOutcomes(t)
	var all []*sending
	var entering sync.WaitGroup
	for i, state := range w.states {
		for name, payload := range commands(t) {
			s := w.sending(name, payload, state.name, fmt.Sprintf("%s-%d-%d", state.name, i, len(all)))
			all = append(all, s)
			entering.Go(func() { state.enter(s.session) })
		}
	}
	entering.Wait()
	var telling sync.WaitGroup
	for _, s := range all {
		telling.Go(func() { s.publish(); s.twice(s.publish) })
	}
	telling.Wait()
	close(w.goOn)
	for _, s := range all {
		w.Send(t, s.session, &schemas.Abort{ClearQueue: true})
	}
	w.compare("unknown", "idle", "model", "tools", "approval", "retry", "compacting", "deleted")
	for _, s := range all {
		s.ended()
	}
	w.EmptyInbox(t)
}

// compare compares the outcomes with the table in testdata.
func (w *outcomes) compare(states ...string) {
	w.t.Helper()
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 0, 1, 2, ' ', 0)
	fmt.Fprintln(table, "command\t"+strings.Join(states, "\t"))
	for _, name := range slices.Sorted(maps.Keys(w.got)) {
		row := name
		for _, state := range states {
			row += "\t" + w.got[name][state]
		}
		fmt.Fprintln(table, row)
	}
	if err := table.Flush(); err != nil {
		w.t.Fatal(err)
	}
	const file = "testdata/outcomes.txt"
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		w.t.Errorf("%s (-want +got):\n%s", file, d)
	}
}

// Commands that are sent while no runner is live get their outcomes from the next runner, each once, however often they
// were sent: in a session at rest, and in one whose run was unfinished when its runner stopped.
func TestOutcomesAfterARunnerHasStopped(t *testing.T) {
	t.Parallel()
	w := newOutcomes(t)
	var all []*sending
	for _, state := range w.states[:3] {
		for name, payload := range commands(t) {
			s := w.sending(name, payload, state.name, fmt.Sprintf("%s-%d", state.name, len(all)))
			all = append(all, s)
			state.enter(s.session)
		}
	}
	w.Runner.Stop()
	for _, s := range all {
		s.publish()
		s.publish()
	}
	w.Runner = system.StartRunner(t, w.URL, system.RunnerOptions{Model: w})
	var telling sync.WaitGroup
	for _, s := range all {
		telling.Go(func() { s.twice(func() {}) })
	}
	telling.Wait()
	close(w.goOn)
	for _, s := range all {
		s.ended()
	}
	w.EmptyInbox(t)
}
