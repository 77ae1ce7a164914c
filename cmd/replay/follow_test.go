package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/live"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// screen is an output that can be watched.
type screen struct {
	mu      sync.Mutex
	b       strings.Builder
	changed chan struct{} // closed at the next write
}

func newScreen() *screen { return &screen{changed: make(chan struct{})} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
	return s.b.Write(p)
}

func (s *screen) now() (string, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String(), s.changed
}

// wait returns once the screen shows text.
func (s *screen) wait(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(90 * time.Second)
	for {
		now, changed := s.now()
		if strings.Contains(now, text) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("no %q in:\n%s", text, now)
		}
	}
}

// following starts replay show --follow; stop interrupts it and returns what it came to.
func (w *world) following(args ...string) (out *screen, stop func() result) {
	ctx, cancel := context.WithCancel(w.ctx())
	out = newScreen()
	var stderr strings.Builder
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"show", "--follow", "--nats", w.server.ClientURL()}, args...),
			outside(nil, out, &stderr))
	}()
	stop = sync.OnceValue(func() result {
		cancel()
		c := <-code
		text, _ := out.now()
		return result{c, text, stderr.String()}
	})
	w.t.Cleanup(func() { stop() })
	return out, stop
}

func TestFollowShowsWhatComes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wr := w.writer("s1")
	wr.append(&schemas.AgentStart{}, &schemas.TurnStart{})
	out, stop := w.following("s1", "--events")
	jsonOut, jsonStop := w.following("s1", "--json")
	late, lateStop := w.following("later", "--events")
	out.wait(t, "run r1 begins")
	jsonOut.wait(t, `"id":"s1/2"`)

	updates := live.New(w.conn, live.Options{Interval: -1})
	say := func(text string) {
		updates.Update(w.ctx(), schemas.Update{Session: "s1", Event: 3, Time: begun, Source: "/x",
			Data: &schemas.MessageUpdate{
				MessageID: "m3", AssistantMessageEvents: []schemas.StreamEvent{{Type: schemas.StreamTextDelta, Delta: text}}}})
	}
	wr.append(&schemas.MessageStart{MessageID: "m3", Role: schemas.RoleAssistant, Model: "m1"})
	say("Hel")
	out.wait(t, "    Hel")
	say("lo,\nworld")
	out.wait(t, "    Hello,\n    world")
	wr.append(&schemas.MessageEnd{MessageID: "m3", Message: schemas.AnyMessage{Message: &schemas.AssistantMessage{
		Content: schemas.Contents{schemas.Text{Text: "Hello,\nworld!"}}, StopReason: schemas.StopLength}}})
	out.wait(t, "world!\n    [stopped: length]\n")
	jsonOut.wait(t, `"id":"s1/4"`)
	w.writer("later").append(&schemas.ErrorEvent{Code: "came", Message: "later"})
	late.wait(t, "error came: later")
	lateStop()

	got := stop()
	expect(t, got, cli.StatusOK, "", "")
	if d := cmp.Diff(w.replay("show", "s1", "--events"), got, unexported); d != "" {
		t.Errorf("(-show +follow):\n%s", d)
	}
	if d := cmp.Diff(w.replay("show", "s1", "--json"), jsonStop(), unexported); d != "" {
		t.Errorf("(-show +follow), JSON:\n%s", d)
	}
}

func TestFollowStopsInTheMiddleOfALine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wr := w.writer("s1")
	out, stop := w.following("s1")
	wr.append(&schemas.AgentStart{}, &schemas.TurnStart{},
		&schemas.MessageStart{MessageID: "m3", Role: schemas.RoleAssistant})
	live.New(w.conn, live.Options{}).Update(w.ctx(),
		schemas.Update{Session: "s1", Event: 3, Time: begun, Source: "/x",
			Data: &schemas.MessageUpdate{MessageID: "m3",
				AssistantMessageEvents: []schemas.StreamEvent{{Type: schemas.StreamTextDelta, Delta: "Hel"}}}})
	out.wait(t, "Hel")
	if got := stop(); got.code != cli.StatusOK || !strings.HasSuffix(got.stdout, "    Hel\n") {
		t.Errorf("exit status %d, stdout %q", got.code, got.stdout)
	}
}

// A call that no worker has begun is said to wait for one.
func TestFollowShowsThatACallWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wr := w.writer("s1")
	wr.event.Time = time.Now().Add(-10 * time.Second)
	out, stop := w.following("s1")
	wr.append(&schemas.AgentStart{}, &schemas.TurnStart{},
		&schemas.ToolExecutionStart{ToolCallID: "call_1", ToolName: "ls", Args: json.RawMessage(`{}`)})
	out.wait(t, "run r1 begins")
	out.wait(t, "(waiting for a worker: none has started ls c3 in 5s)")
	err := w.conn.NATS().PublishMsg(updateMsg(t, schemas.Update{Session: "s1", Event: 3, N: 1, Time: time.Now(),
		Source: "/w", Data: &schemas.ToolExecutionUpdate{ToolCallID: "call_1", ToolName: "ls", Call: "c3"}}))
	if err != nil {
		t.Fatal(err)
	}
	out.wait(t, "(a worker has started ls c3)")
	if got := stop(); got.code != cli.StatusOK || strings.Count(got.stdout, "waiting for a worker") != 1 {
		t.Errorf("exit status %d, stdout %q", got.code, got.stdout)
	}
}

func updateMsg(t *testing.T, u schemas.Update) *nats.Msg {
	t.Helper()
	header, payload, err := schemas.EncodeUpdate(u)
	if err != nil {
		t.Fatal(err)
	}
	return &nats.Msg{Subject: schemas.Subjects{}.LiveUpdate(u.Session), Header: header, Data: payload}
}
