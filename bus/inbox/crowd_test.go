package inbox_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/schemas"
)

// crowd is a handler whose prompts, and sessions of the crowd, stay at work until they are let go, and that counts the
// sessions at work.
type crowd struct {
	bustest.NoHost
	free chan struct{}

	mu       sync.Mutex
	begun    []string // sessions, in the order in which they began
	working  int
	greatest int
}

func (h *crowd) Deliver(ctx context.Context, cmd schemas.Command, entered func()) error {
	h.mu.Lock()
	h.begun = append(h.begun, cmd.Session+" "+textOf(cmd))
	h.working++
	h.greatest = max(h.greatest, h.working)
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.working--
	}()
	entered()
	if cmd.Data.CommandKind() == schemas.CommandPrompt || strings.HasPrefix(cmd.Session, "crowd-") {
		select {
		case <-h.free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (h *crowd) Reject(context.Context, string, schemas.CommandRejected) error { return nil }

// at is the place in which a delivery began, -1 before it has.
func (h *crowd) at(delivery string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Index(h.begun, delivery)
}

// runCrowd runs a runner's inbox for so many sessions at once, whose prompts stay at work.
func runCrowd(t *testing.T, most int) (c *bus.Conn, h *crowd, in *inbox.Inbox, stop func() error) {
	t.Helper()
	_, c = bustest.Small(t)
	h = &crowd{free: make(chan struct{})}
	o := bustest.Fast("r1")
	o.MaxSessions = most
	in, stop = bustest.RunInbox(t, c, o, h)
	return c, h, in, stop
}

// TestACrowdDoesNotKeepOthersWaiting has many sessions at once whose work does not end. What presses in other sessions
// is taken in all the same; a newcomer is, once a few have ended; and no more than the bound are at work.
func TestACrowdDoesNotKeepOthersWaiting(t *testing.T) {
	t.Parallel()
	for _, kind := range []schemas.CommandKind{schemas.CommandPrompt, schemas.CommandSteer, schemas.CommandFollowUp} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			testCrowd(t, kind)
		})
	}
}

// testCrowd starts the runs of a crowd with one kind of command. All of these kinds start a run in a session at rest.
func testCrowd(t *testing.T, kind schemas.CommandKind) {
	const many, most = 200, 8
	c, h, in, _ := runCrowd(t, most)
	bustest.Send(t, c, "old", "first")
	bustest.Eventually(t, "the old session is at work", func() bool { return h.at("old first") == 0 })
	publish := func(session string, kind schemas.CommandKind, payload string) {
		t.Helper()
		msg := &nats.Msg{Subject: c.Subjects().Command(session, kind), Data: []byte(payload)}
		if _, err := c.JetStream().PublishMsg(bustest.Deadline(t), msg); err != nil {
			t.Fatal(err)
		}
	}
	for i := range many {
		publish(fmt.Sprintf("crowd-%d", i), kind, "go")
	}
	bustest.Eventually(t, "all are received", func() bool { return in.InFlight() == many+1 })
	publish("old", schemas.CommandSteer, "left")
	publish("resting", schemas.CommandApprove, `{"call":"c7"}`)
	bustest.Send(t, c, "newcomer", "hello")
	bustest.Eventually(t, "all are received", func() bool { return in.InFlight() >= many+2 })
	for _, delivery := range []string{"old steer", "resting approve"} {
		bustest.Eventually(t, delivery+" begins", func() bool { return h.at(delivery) >= 0 })
	}
	for range 6 { // four may be beyond the bound; of the next two one is the newest
		h.free <- struct{}{}
	}
	bustest.Eventually(t, "the newcomer begins", func() bool { return h.at("newcomer hello") >= 0 })
	if n := len(h.began()); n > 2*most+8 {
		t.Errorf("%d had begun by then", n)
	}
	close(h.free)
	bustest.Eventually(t, "all are settled", func() bool { return bustest.Queued(t, c) == 0 && in.InFlight() == 0 })
	begun := h.began()
	slices.Sort(begun)
	if len(begun) != many+4 || len(slices.Compact(begun)) != many+4 {
		t.Errorf("%d deliveries, %d different", len(begun), len(slices.Compact(begun)))
	}
	if h.greatest > 2*most+1 { // and the steer in a session at work
		t.Errorf("%d deliveries were at work at once", h.greatest)
	}
}

func (h *crowd) began() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.begun)
}

// TestWhatWaitsIsLeftToOtherRunners stops a runner with most of a crowd waiting: the next one takes all of it up, each
// session's commands in their order.
func TestWhatWaitsIsLeftToOtherRunners(t *testing.T) {
	t.Parallel()
	const many = 50
	c, first, _, stop := runCrowd(t, 2)
	for i := range many {
		for n := range 3 {
			bustest.Send(t, c, fmt.Sprintf("s%d", i), fmt.Sprint(n))
		}
	}
	bustest.Eventually(t, "some are at work", func() bool { return len(first.began()) >= 2 })
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	var second fakeHandler
	bustest.RunInbox(t, c, bustest.Fast("r2"), &second)
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Fatal("the first runner does not stop")
	}
	bustest.Eventually(t, "all are settled", func() bool { return bustest.Queued(t, c) == 0 })
	for i := range many {
		if got := second.texts(fmt.Sprintf("s%d", i)); !slices.Equal(got, []string{"0", "1", "2"}) {
			t.Errorf("session %d got %v", i, got)
		}
	}
}

// TestFailingSessionsKeepNobodyOut has more sessions that fail than may be at work.
func TestFailingSessionsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	h := &fakeHandler{deliver: func(_ context.Context, cmd schemas.Command, _ func()) error {
		if cmd.Session != "good" {
			return fmt.Errorf("session %s is damaged", cmd.Session)
		}
		return nil
	}}
	o := bustest.Fast("r1")
	o.MaxSessions, o.MaxDeliver = 2, 1000
	bustest.RunInbox(t, c, o, h)
	for i := range 20 {
		bustest.Send(t, c, fmt.Sprintf("bad-%d", i), "go")
	}
	bustest.Eventually(t, "all have failed", func() bool { return h.total() >= 20 })
	bustest.Send(t, c, "good", "go")
	bustest.Eventually(t, "the good one is delivered", func() bool { return len(h.texts("good")) == 1 })
}
