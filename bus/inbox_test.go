package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// fakeHandler is a Handler made of functions; what it was told is kept.
type fakeHandler struct {
	deliver func(ctx context.Context, cmd schemas.Command, entered func()) error
	reject  func(session string, r schemas.CommandRejected) error

	mu       sync.Mutex
	got      map[string][]string // texts of prompts by session, in the order of their entry
	rejected []schemas.CommandRejected
}

func (h *fakeHandler) Deliver(ctx context.Context, cmd schemas.Command, entered func()) error {
	h.mu.Lock()
	if h.got == nil {
		h.got = map[string][]string{}
	}
	h.got[cmd.Session] = append(h.got[cmd.Session], textOf(cmd))
	h.mu.Unlock()
	if h.deliver != nil {
		return h.deliver(ctx, cmd, entered)
	}
	return nil
}

func (h *fakeHandler) Reject(_ context.Context, session string, r schemas.CommandRejected) error {
	if h.reject != nil {
		if err := h.reject(session, r); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rejected = append(h.rejected, r)
	return nil
}

func (h *fakeHandler) texts(session string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got[session])
}

func (h *fakeHandler) total() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, texts := range h.got {
		n += len(texts)
	}
	return n
}

func (h *fakeHandler) rejections() []schemas.CommandRejected {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.rejected)
}

func textOf(cmd schemas.Command) string {
	if p, ok := cmd.Data.(*schemas.Prompt); ok {
		return p.Text
	}
	return string(cmd.Data.CommandKind())
}

// fastOptions are options for tests: everything that can be short is.
func fastOptions(id string) bus.InboxOptions {
	return bus.InboxOptions{RunnerID: id, AckWait: 900 * time.Millisecond, PinnedTTL: 600 * time.Millisecond,
		MemberTTL: time.Second, HandoverWait: 500 * time.Millisecond, TakeoverWait: 300 * time.Millisecond,
		StopTimeout: 5 * time.Second}
}

// runInbox runs an inbox for the length of the test, or until stop is called, which returns what Run did.
func runInbox(t testing.TB, c *bus.Conn, o bus.InboxOptions, h bus.Handler) (in *bus.Inbox, stop func() error) {
	t.Helper()
	in, err := bus.NewInbox(c, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx, h) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(30 * time.Second):
			return fmt.Errorf("inbox %s does not stop", o.RunnerID)
		}
	})
	t.Cleanup(func() {
		if err := stop(); err != nil && !t.Failed() {
			t.Logf("inbox %s: %v", o.RunnerID, err)
		}
	})
	select {
	case <-in.Ready():
	case err := <-done:
		done <- err
		t.Fatalf("inbox %s did not start: %v", o.RunnerID, err)
	case <-time.After(20 * time.Second):
		t.Fatalf("inbox %s is not ready", o.RunnerID)
	}
	return in, stop
}

// send publishes a prompt in plain text.
func send(t testing.TB, c *bus.Conn, session, text string) {
	t.Helper()
	if _, err := c.JetStream().Publish(deadline(t), c.Subjects().Command(session, schemas.CommandPrompt), []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// queued returns how many messages the inbox's stream has.
func queued(t testing.TB, c *bus.Conn) uint64 {
	t.Helper()
	s, err := c.JetStream().Stream(deadline(t), schemas.StreamCommands)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func TestInboxDeliversInOrderAndAcknowledges(t *testing.T) {
	c := newBus(t)
	var h fakeHandler
	in, _ := runInbox(t, c, fastOptions("r1"), &h)
	if got := len(in.Partitions()); got != bus.DefaultPartitions {
		t.Errorf("a runner alone reads %d partitions, want all %d", got, bus.DefaultPartitions)
	}
	const sessions, commands = 20, 30
	var want []string
	for i := range commands {
		want = append(want, fmt.Sprintf("%03d", i))
		for s := range sessions {
			send(t, c, fmt.Sprintf("s%d", s), want[i])
		}
	}
	eventually(t, "the queue is empty", func() bool { return queued(t, c) == 0 })
	for s := range sessions {
		if got := h.texts(fmt.Sprintf("s%d", s)); !slices.Equal(got, want) {
			t.Errorf("session s%d got %v", s, got)
		}
	}
	if n := in.InHand(); n != 0 {
		t.Errorf("%d messages are in hand", n)
	}
}

func TestInboxLetsTheNextCommandInOnceOneHasEntered(t *testing.T) {
	_, c := newSmallBus(t)
	rest := make(chan struct{})
	h := fakeHandler{deliver: func(ctx context.Context, cmd schemas.Command, entered func()) error {
		entered()
		entered() // counts once
		if textOf(cmd) == "wake" {
			<-rest
		}
		return nil
	}}
	runInbox(t, c, fastOptions("r1"), &h)
	send(t, c, "s1", "wake")
	send(t, c, "s1", "steer")
	eventually(t, "steer overtook nobody and waited for nobody", func() bool {
		return slices.Equal(h.texts("s1"), []string{"wake", "steer"})
	})
	eventually(t, "steer is acknowledged, wake is not", func() bool { return queued(t, c) == 1 })
	close(rest)
	eventually(t, "the queue is empty", func() bool { return queued(t, c) == 0 })
}

func TestInboxHoldsTheNextCommandBackUntilOneHasEntered(t *testing.T) {
	_, c := newSmallBus(t)
	started, enter := make(chan struct{}), make(chan struct{})
	h := fakeHandler{deliver: func(ctx context.Context, cmd schemas.Command, entered func()) error {
		if textOf(cmd) == "first" {
			close(started)
			<-enter
		}
		return nil
	}}
	in, _ := runInbox(t, c, fastOptions("r1"), &h)
	send(t, c, "s1", "first")
	<-started
	send(t, c, "s1", "second")
	send(t, c, "other", "hello")
	eventually(t, "another session is not held up", func() bool { return len(h.texts("other")) == 1 })
	eventually(t, "second has been received", func() bool { return in.InHand() == 2 })
	if got := h.texts("s1"); !slices.Equal(got, []string{"first"}) {
		t.Fatalf("entered too early: %v", got)
	}
	close(enter)
	eventually(t, "second enters", func() bool { return len(h.texts("s1")) == 2 })
}

// The rule of rest: a command that is being worked on stays with its runner, however long it takes.
func TestInboxGivesSignsOfLifeWhileACommandRuns(t *testing.T) {
	_, c := newSmallBus(t)
	o := fastOptions("r1")
	rest := make(chan struct{})
	h := fakeHandler{deliver: func(ctx context.Context, _ schemas.Command, _ func()) error {
		select {
		case <-rest:
		case <-ctx.Done():
			t.Error("the context ended while the inbox ran")
		}
		return nil
	}}
	runInbox(t, c, o, &h)
	send(t, c, "s1", "long")
	eventually(t, "delivery", func() bool { return h.total() == 1 })
	<-time.After(5 * o.AckWait)
	if n := redelivered(t, c); n != 0 {
		t.Errorf("the server has delivered it %d times more", n)
	}
	close(rest)
	eventually(t, "the queue is empty", func() bool { return queued(t, c) == 0 })
	if got := h.total(); got != 1 {
		t.Errorf("delivered %d times", got)
	}
}

// redelivered returns how many messages that are not settled have been delivered more than once.
func redelivered(t testing.TB, c *bus.Conn) int {
	t.Helper()
	s, err := c.JetStream().Stream(deadline(t), schemas.StreamCommands)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	list := s.ListConsumers(deadline(t))
	for info := range list.Info() {
		n += info.NumRedelivered
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestInboxDeliversAgainInOrderAfterAnError(t *testing.T) {
	_, c := newSmallBus(t)
	started, fail := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h := fakeHandler{deliver: func(ctx context.Context, cmd schemas.Command, entered func()) error {
		var err error
		once.Do(func() {
			close(started)
			<-fail
			err = fmt.Errorf("the first try fails")
		})
		return err
	}}
	in, _ := runInbox(t, c, fastOptions("r1"), &h)
	send(t, c, "s1", "a")
	<-started
	send(t, c, "s1", "b")
	send(t, c, "s1", "c")
	eventually(t, "all are received", func() bool { return in.InHand() == 3 })
	close(fail)
	eventually(t, "the queue is empty", func() bool { return queued(t, c) == 0 })
	if got, want := h.texts("s1"), []string{"a", "a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestInboxSurvivesAPanicAndGivesUpAfterMaxDeliver(t *testing.T) {
	_, c := newSmallBus(t)
	o := fastOptions("r1")
	o.MaxDeliver = 2
	h := fakeHandler{deliver: func(ctx context.Context, cmd schemas.Command, entered func()) error {
		if textOf(cmd) == "poison" {
			panic("boom")
		}
		return nil
	}}
	runInbox(t, c, o, &h)
	send(t, c, "s1", "poison")
	send(t, c, "s1", "after")
	eventually(t, "the queue is empty", func() bool { return queued(t, c) == 0 })
	if got, want := h.texts("s1"), []string{"poison", "poison", "after"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	r := h.rejections()
	if len(r) != 1 || r[0].Code != schemas.RejectDelivery || r[0].CommandID != "cmd-1" || r[0].StreamSeq != 1 {
		t.Errorf("rejections: %+v", r)
	}
	dead := lastDead(t, c, "s1")
	if string(dead.Data) != "poison" {
		t.Errorf("dead letter holds %q", dead.Data)
	}
}

func TestACommandGivenUpKeepsTheIdOfItsSender(t *testing.T) {
	_, c := newSmallBus(t)
	o := fastOptions("r1")
	o.MaxDeliver = 1
	h := fakeHandler{deliver: func(context.Context, schemas.Command, func()) error { return errors.New("cannot") }}
	runInbox(t, c, o, &h)
	send(t, c, "s1", `{"id":"p-1","text":"go"}`)
	eventually(t, "the queue is empty", func() bool { return queued(t, c) == 0 })
	if r := h.rejections(); len(r) != 1 || r[0].CommandID != "p-1" {
		t.Errorf("rejections: %+v", r)
	}
}

func lastDead(t testing.TB, c *bus.Conn, session string) *jetstream.RawStreamMsg {
	t.Helper()
	s, err := c.JetStream().Stream(deadline(t), schemas.StreamDead)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := s.GetLastMsgForSubject(deadline(t), c.Subjects().Dead(schemas.StreamCommands, session))
	if err != nil {
		t.Fatal(err)
	}
	return msg
}
