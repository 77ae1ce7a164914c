package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// fakeHandler is a Handler made of functions. It keeps what it receives.
type fakeHandler struct {
	bustest.NoHost
	deliver func(ctx context.Context, cmd schemas.Command, entered func()) error
	reject  func(session string, r schemas.CommandRejected) error
	hold    func(session string)

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

func (h *fakeHandler) Hold(ctx context.Context, session string, _ func()) (
	holding context.Context, release func(), err error,
) {
	if h.hold != nil {
		h.hold(session)
	}
	return ctx, func() {}, nil
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

// reached returns how many sessions have had a delivery. On a machine that stands still for seconds the consumer is
// replaced, and what it has not acknowledged is delivered twice.
func (h *fakeHandler) reached() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.got)
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

func TestInboxDeliversInOrderAndAcknowledges(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	var h fakeHandler
	in, _ := bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	if got := len(in.Partitions()); got != streams.DefaultPartitions {
		t.Errorf("a runner alone reads %d partitions, want all %d", got, streams.DefaultPartitions)
	}
	const sessions, commands = 20, 30
	var want []string
	for i := range commands {
		want = append(want, fmt.Sprintf("%03d", i))
		for s := range sessions {
			bustest.Send(t, c, fmt.Sprintf("s%d", s), want[i])
		}
	}
	bustest.Eventually(t, "the queue is empty", func() bool { return bustest.Queued(t, c) == 0 })
	for s := range sessions {
		if got := h.texts(fmt.Sprintf("s%d", s)); !slices.Equal(got, want) {
			t.Errorf("session s%d got %v", s, got)
		}
	}
	if n := in.InFlight(); n != 0 {
		t.Errorf("%d messages are in flight", n)
	}
}

func TestInboxLetsTheNextCommandInOnceOneHasEntered(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	rest := make(chan struct{})
	h := fakeHandler{deliver: func(ctx context.Context, cmd schemas.Command, entered func()) error {
		entered()
		entered() // counts once
		if textOf(cmd) == "wake" {
			<-rest
		}
		return nil
	}}
	bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	bustest.Send(t, c, "s1", "wake")
	bustest.Send(t, c, "s1", "steer")
	bustest.Eventually(t, "steer overtook nobody and waited for nobody", func() bool {
		return slices.Equal(h.texts("s1"), []string{"wake", "steer"})
	})
	bustest.Eventually(t, "steer is acknowledged, wake is not", func() bool { return bustest.Queued(t, c) == 1 })
	close(rest)
	bustest.Eventually(t, "the queue is empty", func() bool { return bustest.Queued(t, c) == 0 })
}

func TestInboxHoldsTheNextCommandBackUntilOneHasEntered(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	started, enter := make(chan struct{}), make(chan struct{})
	h := fakeHandler{deliver: func(ctx context.Context, cmd schemas.Command, entered func()) error {
		if textOf(cmd) == "first" {
			close(started)
			<-enter
		}
		return nil
	}}
	in, _ := bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	bustest.Send(t, c, "s1", "first")
	<-started
	bustest.Send(t, c, "s1", "second")
	bustest.Send(t, c, "other", "hello")
	bustest.Eventually(t, "another session is not held up", func() bool { return len(h.texts("other")) == 1 })
	bustest.Eventually(t, "second has been received", func() bool { return in.InFlight() == 2 })
	if got := h.texts("s1"); !slices.Equal(got, []string{"first"}) {
		t.Fatalf("entered too early: %v", got)
	}
	close(enter)
	bustest.Eventually(t, "second enters", func() bool { return len(h.texts("s1")) == 2 })
}

// The rule of rest: a command that is being worked on stays with its runner, however long it takes.
func TestACommandAtWorkIsNotDeliveredAgain(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	rest := make(chan struct{})
	h := &keeping{}
	h.keeps.Store(true)
	h.deliver = func(ctx context.Context, _ schemas.Command, entered func()) error {
		entered()
		select {
		case <-rest:
		case <-ctx.Done():
			t.Error("the context ended while the inbox ran")
		}
		return nil
	}
	in, _ := bustest.RunInbox(t, c, undisturbed("r1"), h)
	bustest.Send(t, c, "s1", "long")
	bustest.Eventually(t, "delivery", func() bool { return h.total() == 1 })
	// Another runner comes and goes: the consumers are made anew twice, and all that is in flight is delivered again.
	_, stop := bustest.RunInbox(t, bustest.Connect(t, s), undisturbed("r2"), h)
	bustest.Eventually(t, "both read", func() bool { return len(in.Partitions()) < bustest.SmallPartitions })
	if err := stop(); err != nil {
		t.Error(err)
	}
	bustest.Eventually(t, "one reads all", func() bool { return len(in.Partitions()) == bustest.SmallPartitions })
	bustest.Send(t, c, "s1", "last")
	bustest.Eventually(t, "what was in flight comes before", func() bool { return h.total() == 2 })
	close(rest)
	bustest.Eventually(t, "the queue is empty", func() bool { return bustest.Queued(t, c) == 0 })
	if got := h.texts("s1"); !slices.Equal(got, []string{"long", "last"}) {
		t.Errorf("delivered %v", got)
	}
}

func TestInboxDeliversAgainInOrderAfterAnError(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
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
	in, _ := bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	bustest.Send(t, c, "s1", "a")
	<-started
	bustest.Send(t, c, "s1", "b")
	bustest.Send(t, c, "s1", "c")
	bustest.Eventually(t, "all are received", func() bool { return in.InFlight() == 3 })
	close(fail)
	bustest.Eventually(t, "the queue is empty", func() bool { return bustest.Queued(t, c) == 0 })
	if got, want := h.texts("s1"), []string{"a", "a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestInboxSurvivesAPanicAndGivesUpAfterMaxDeliver(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	o := bustest.Fast("r1")
	o.MaxDeliver = 2
	h := fakeHandler{deliver: func(ctx context.Context, cmd schemas.Command, entered func()) error {
		if textOf(cmd) == "poison" {
			panic("boom")
		}
		return nil
	}}
	bustest.RunInbox(t, c, o, &h)
	bustest.Send(t, c, "s1", "poison")
	bustest.Send(t, c, "s1", "after")
	bustest.Eventually(t, "the queue is empty", func() bool { return bustest.Queued(t, c) == 0 })
	if got, want := h.texts("s1"), []string{"poison", "poison", "after"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	r := h.rejections()
	if len(r) != 1 || r[0].Code != schemas.RejectDelivery || !isStoredID(t, c, r[0].CommandID, 1) || r[0].StreamSeq != 1 {
		t.Errorf("rejections: %+v", r)
	}
	dead := lastDead(t, c, "s1")
	if string(dead.Data) != "poison" {
		t.Errorf("dead letter holds %q", dead.Data)
	}
}

func TestACommandGivenUpKeepsTheIdOfItsSender(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	o := bustest.Fast("r1")
	o.MaxDeliver = 1
	h := fakeHandler{deliver: func(context.Context, schemas.Command, func()) error { return errors.New("cannot") }}
	bustest.RunInbox(t, c, o, &h)
	bustest.Send(t, c, "s1", `{"id":"p-1","text":"go"}`)
	bustest.Eventually(t, "the queue is empty", func() bool { return bustest.Queued(t, c) == 0 })
	if r := h.rejections(); len(r) != 1 || r[0].CommandID != "p-1" {
		t.Errorf("rejections: %+v", r)
	}
}

func lastDead(t testing.TB, c *bus.Conn, session string) *jetstream.RawStreamMsg {
	t.Helper()
	s, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamDead)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := s.GetLastMsgForSubject(bustest.Deadline(t), c.Subjects().Dead(schemas.StreamCommands, session))
	if err != nil {
		t.Fatal(err)
	}
	return msg
}
