package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// A session is deleted while the connection of its followers is lost, and does not begin again.
func TestFollowersOfASessionThatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	server, a, _ := start(t)
	r := newRelay(t, server.ClientURL()[len("nats://"):])
	c := connect(t, "nats://"+r.l.Addr().String())
	c.Check(500 * time.Millisecond)
	unborn := watch(t, c.Session("s2"), 1)
	w := watch(t, c.Session("s1"), 1)
	a.commit(&schemas.QueueUpdate{})
	w.want("1 queue_update")
	run, err := c.Session("s1").Prompt(bustest.Deadline(t), client.Text("go"))
	if err != nil {
		t.Fatal(err)
	}
	r.keepBack()
	a.another()
	r.cut()
	if err := w.fails(); !errors.Is(err, client.ErrDeleted) {
		t.Errorf("Watch ends with %v", err)
	}
	if _, err := run.Wait(bustest.Deadline(t)); !errors.Is(err, client.ErrDeleted) {
		t.Errorf("Wait ends with %v", err)
	}
	newAuthor(t, a.c, "s2").commit(&schemas.AgentStart{})
	unborn.want("1 agent_start") // a session that never began was not deleted
}

// A replica that is behind has no log yet when a follower checks it. The follower waits for another check.
func TestALogThatAReplicaDoesNotHaveIsNotDeleted(t *testing.T) {
	t.Parallel()
	c, current := bustest.Behind(t, schemas.StreamEvents)
	checks := make(chan *nats.Msg, 64)
	for _, subject := range []string{"behind.>", "$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.s1"} {
		if _, err := c.NATS().ChanSubscribe(subject, checks); err != nil {
			t.Fatal(err)
		}
	}
	a := newAuthor(t, c, "s1")
	a.commit(&schemas.QueueUpdate{})
	w := watch(t, connect(t, c.NATS().ConnectedUrl()).Session("s1"), 1)
	w.want("1 queue_update")
	bustest.Within(t, checks)
	current()
	for range 2 {
		bustest.Within(t, checks)
	}
	a.commit(&schemas.QueueUpdate{})
	w.want("2 queue_update")
}

// follow follows the approvals of all sessions until the test ends.
func follow(t *testing.T, c *client.Client) <-chan client.Approval {
	t.Helper()
	got := make(chan client.Approval, 100)
	done := make(chan struct{})
	t.Cleanup(func() { <-done })
	ctx := bustest.Deadline(t)
	go func() {
		defer close(done)
		for a, err := range c.Approvals(ctx) {
			if err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			got <- a
		}
	}()
	return got
}

// asks appends the request of an approval.
func (a *author) asks(digest string) {
	a.t.Helper()
	a.commit(&schemas.AgentStart{})
	a.commit(&schemas.ApprovalRequested{ToolCallID: "x", Call: "c2", ToolName: "bash", Digest: digest})
}

// shown checks that the next approval is of a session and waits, or not.
func shown(t *testing.T, got <-chan client.Approval, session string, waiting bool) {
	t.Helper()
	if a := bustest.Within(t, got); a.Session != session || a.Waiting != waiting {
		t.Errorf("%s, waiting %t; want %s, %t", a.Session, a.Waiting, session, waiting)
	}
}

// A session is deleted while the connection of the follower is lost. Nothing is stored that says that its approval
// does not wait any more.
func TestApprovalsOfASessionThatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"and is gone": false, "and begins again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, s1, _ := start(t)
			s2 := newAuthor(t, s1.c, "s2")
			s1.asks("sha256:0")
			r := newRelay(t, server.ClientURL()[len("nats://"):])
			c := connect(t, "nats://"+r.l.Addr().String())
			c.Check(500 * time.Millisecond)
			got := follow(t, c)
			shown(t, got, "s1", true)
			r.keepBack()
			s1.commit(&schemas.AgentEnd{})
			s1.another()
			if again {
				s1.asks("sha256:0")
			}
			r.cut()
			shown(t, got, "s1", false)
			if again {
				shown(t, got, "s1", true)
			}
			s2.asks("sha256:2")
			shown(t, got, "s2", true)
		})
	}
}
