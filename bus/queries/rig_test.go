package queries_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/queries"
	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/bus/service"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/view"
	"github.com/loopbus/loopbus/schemas"
)

func TestMain(m *testing.M) { bustest.Main(m) }

// rig is a server, logs on it, and runners that answer.
type rig struct {
	t     testing.TB
	conn  *bus.Conn
	store *eventstore.Store
	clock time.Time // of the next event

	viewed func(queries.View) queries.View // nil leaves views as they are
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, conn: bustest.New(t), clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	var err error
	if r.store, err = eventstore.New(r.conn.Events(), eventstore.Options{}); err != nil {
		t.Fatal(err)
	}
	return r
}

// runner answers queries until the test ends, or stop is called.
func (r *rig) runner() (ix *index.Index, stop func()) {
	r.t.Helper()
	ix = index.Open(r.conn, index.Options{
		Logs: r.store, Damaged: eventstore.ErrDamaged, Interval: 50 * time.Millisecond, Check: 50 * time.Millisecond,
		Grace: 20 * time.Millisecond,
		Setup: func(ctx context.Context) error { return streams.Setup(ctx, r.conn, streams.Options{}) },
	})
	<-ix.Ready()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	endpoints := queries.Endpoints(r.conn, queries.Options{
		Index: ix, Logs: r.store, Damaged: eventstore.ErrDamaged,
		View: func(ctx context.Context, session string) (queries.View, error) {
			log, err := r.store.Open(ctx, session)
			if err != nil {
				return nil, err
			}
			defer log.Close()
			v, err := view.Load(ctx, session, log)
			if err != nil || r.viewed == nil {
				return v, err
			}
			return r.viewed(v), nil
		},
		Tree:   func(leaf, before string) queries.Tree { return view.NewTree(leaf, before) },
		Window: func(m schemas.ModelRef) int64 { return int64(1000 * len(m.ID)) },
	})
	go func() {
		done <- service.Run(ctx, r.conn.NATS(), service.Options{Name: "loopbus-runner", Version: "0.1.0",
			Busy: queries.Busy(), Timeout: time.Minute}, endpoints...)
	}()
	bustest.Eventually(r.t, "the service answers", func() bool {
		_, err := r.conn.NATS().Request("$SRV.PING.loopbus-runner", nil, time.Second)
		return err == nil
	})
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
		ix.Close()
	}
	r.t.Cleanup(stop)
	return ix, stop
}

// whole waits until an index has n sessions and all of each.
func whole(t testing.TB, ix *index.Index, n int) {
	t.Helper()
	bustest.Eventually(t, fmt.Sprint("the index has ", n, " sessions"), func() bool {
		v := ix.View()
		return len(v.Entries) == n && !v.Partial
	})
}

// ask sends a query and decodes its answer, which has to keep to the schema of that name.
func ask[T any](r *rig, subject, request, schema string) (answer T) {
	r.t.Helper()
	m := r.request(subject, request)
	if reason := m.Header.Get(micro.ErrorHeader); reason != "" {
		r.t.Fatalf("%s %s: %s", subject, request, reason)
	}
	if err := schemas.ValidateQuery(schema, m.Data); err != nil {
		r.t.Errorf("%s %s: %v", subject, request, err)
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		r.t.Fatalf("%s: %v", subject, err)
	}
	return answer
}

func (r *rig) request(subject, request string) *nats.Msg {
	r.t.Helper()
	m, err := r.conn.NATS().Request(subject, []byte(request), 90*time.Second)
	if err != nil {
		r.t.Fatalf("%s %s: %v", subject, request, err)
	}
	return m
}

// refused wants a query to be answered with a code, in the headers and in the payload.
func (r *rig) refused(subject, request string, code schemas.QueryCode) (reason string) {
	r.t.Helper()
	m := r.request(subject, request)
	var says schemas.QueryError
	if err := json.Unmarshal(m.Data, &says); err != nil || says.Code != code || says.Reason == "" ||
		m.Header.Get(micro.ErrorCodeHeader) != fmt.Sprint(code.HTTPCode()) ||
		!strings.HasPrefix(m.Header.Get(micro.ErrorHeader), string(code)) {
		r.t.Errorf("%s %.60s: want %s, got %s %v, %v", subject, request, code, m.Data, m.Header, err)
	}
	return says.Reason
}

// session is a log that is written with the ids and times that a driver would give.
type session struct {
	r     *rig
	log   *eventstore.Log
	track *index.Track
	state *loop.State
}

func (r *rig) session(ix *index.Index, id string) *session {
	r.t.Helper()
	log, err := r.store.Open(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	s := &session{r: r, log: log, state: &loop.State{Session: id}}
	for e, err := range log.Read(r.t.Context(), 1) {
		if err == nil {
			err = s.state.Apply(e)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	if ix != nil {
		s.track = ix.Track(id, s.state.Seq, log.Stored)
	}
	return s
}

// say stores events, a minute after another.
func (s *session) say(data ...schemas.EventData) *session {
	s.r.t.Helper()
	for _, d := range data {
		e := s.state.Envelope(d)
		s.r.clock = s.r.clock.Add(time.Minute)
		e.Time, e.Source = s.r.clock, "/loopbus/runner/r1"
		if err := s.log.Append(s.r.t.Context(), e); err != nil {
			s.r.t.Fatal(err)
		}
		if err := s.state.Apply(e); err != nil {
			s.r.t.Fatal(err)
		}
		if s.track != nil {
			s.track.Appended(e)
		}
	}
	if err := s.log.Flush(s.r.t.Context()); err != nil {
		s.r.t.Fatal(err)
	}
	return s
}

// accept is a prompt that waits.
func accept(id, text string) schemas.EventData {
	data, _ := schemas.Marshal(&schemas.Prompt{Input: schemas.Input{Text: text}})
	return &schemas.CommandAccepted{CommandID: id, Kind: schemas.CommandPrompt, Queue: schemas.QueuePrompts, Data: data,
		Follows: []schemas.Follow{}}
}

// config is what runs of the tests are driven with.
func config() *schemas.RunConfig {
	return &schemas.RunConfig{Model: schemas.ModelRef{Provider: "p", ID: "m-1"}, Profile: "reviewer",
		Tools: []schemas.ToolDefinition{{Name: "bash", Description: "runs"}, {Name: "ls"}}}
}

// message puts a message into the log, as the driver does.
func (s *session) message(m schemas.Message) *session {
	s.r.t.Helper()
	id := s.state.MessageID()
	start := &schemas.MessageStart{MessageID: id, Role: m.MessageRole()}
	if reply, ok := m.(*schemas.AssistantMessage); ok {
		start.API, start.Provider, start.Model = "a", "p", "m-1"
		reply.Usage = schemas.Usage{Input: 90, Output: 10, TotalTokens: 100, Cost: schemas.Cost{Total: 0.25}}
	}
	return s.say(start, &schemas.MessageEnd{MessageID: id, Message: schemas.AnyMessage{Message: m}})
}

// begin begins a run with a prompt, as far as the reply.
func (s *session) begin(id, text string) *session {
	s.r.t.Helper()
	s.say(accept(id, text), &schemas.AgentStart{Config: config(), Inputs: []string{id}}, &schemas.TurnStart{})
	user := &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: text}}}
	return s.message(user).say(&schemas.CommandApplied{CommandID: id, Kind: schemas.CommandPrompt})
}

// run is a run of a prompt and an answer.
func (s *session) run(id, text, answer string) *session {
	s.r.t.Helper()
	s.begin(id, text).message(&schemas.AssistantMessage{Content: schemas.Contents{schemas.Text{Text: answer}},
		StopReason: schemas.StopStop})
	return s.say(&schemas.TurnEnd{}, &schemas.AgentEnd{TerminationReason: schemas.EndNoToolCalls, Turns: 1})
}

// calls has the model ask for tool calls, which wait for approval.
func (s *session) calls(args ...string) *session {
	s.r.t.Helper()
	content := schemas.Contents{}
	for n, a := range args {
		content = append(content, schemas.ToolCall{ID: fmt.Sprint("t", n), Name: "bash", Arguments: json.RawMessage(a)})
	}
	s.message(&schemas.AssistantMessage{Content: content, StopReason: schemas.StopToolUse})
	for n, a := range args {
		s.say(&schemas.ToolExecutionStart{ToolCallID: fmt.Sprint("t", n), ToolName: "bash", Args: json.RawMessage(a)})
		s.say(&schemas.ApprovalRequested{Call: schemas.NewCallKey(s.state.Seq), ToolCallID: fmt.Sprint("t", n),
			ToolName: "bash", Args: json.RawMessage(a), Reason: "bash asks", TimeoutMs: 60_000})
	}
	return s
}
