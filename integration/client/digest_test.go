package client_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// A client answers an approval in a list after the session was deleted and started again, and a call with the same key
// waits at the same event. The answer is rejected, and the call waits for an answer to its own request. Followers of
// approvals receive the new request.
func TestAnAnswerToASessionBegunAnew(t *testing.T) {
	t.Parallel()
	sys := asking(t)
	c := connect(t, sys.URL)
	live := following(t, c)
	prompt(t, c.Session("s1"), "go")
	old := next(t, live)
	sys.Anew(t, "s1", "go")
	var now client.Approval
	for now = next(t, live); !now.Waiting; now = next(t, live) { // the end of the old request arrives first
		if now.Seq != old.Seq || now.Request.Digest != old.Request.Digest || now.Resolved != nil {
			t.Errorf("the ended request is %+v", now)
		}
	}
	if now.Seq != old.Seq || now.Request.Call != old.Request.Call || now.Request.Digest == old.Request.Digest {
		t.Fatalf("the requests are %+v and %+v", old, now)
	}
	s := c.Session("s1")
	for what, err := range map[string]error{
		"approve":                s.Approve(deadline(t), old.Request, "looks right"),
		"deny":                   s.Deny(deadline(t), old.Request, "looks wrong"),
		"with changed arguments": s.Approve(deadline(t), old.Request, "", client.WithArgs([]byte(`{"v":"2"}`))),
	} {
		var rejected *client.RejectedError
		if !errors.As(err, &rejected) || rejected.Code != schemas.RejectStale ||
			!strings.Contains(err.Error(), "call "+string(now.Request.Call)+" ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	sys.Unanswered(t, "s1")
	late := next(t, following(t, connect(t, sys.URL)))
	if late.Request.Digest != now.Request.Digest {
		t.Errorf("a later follower receives %+v", late)
	}
	if err := s.Approve(deadline(t), late.Request, ""); err != nil {
		t.Error(err)
	}
	sys.Until(t, "s1", "the end of the run", system.Ends(1))
}

// An answer that is published without the client needs no digest.
func TestAnAnswerWithoutADigest(t *testing.T) {
	t.Parallel()
	sys := asking(t)
	c := connect(t, sys.URL)
	run := prompt(t, c.Session("s1"), "go")
	a := next(t, following(t, c))
	sys.Publish(t, "s1", schemas.CommandApprove, `{"call":"`+string(a.Request.Call)+`","by":"ann"}`)
	if res := result(t, run); res.Text() != "done" {
		t.Errorf("the run ended with %+v", res)
	}
}
