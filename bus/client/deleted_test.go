package client_test

import (
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

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
