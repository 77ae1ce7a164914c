package host_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// Absent opens the log and loads nothing. If the log cannot be opened, the session does not count as absent.
func TestAbsent(t *testing.T) {
	t.Parallel()
	opened, fails := 0, error(nil)
	r := looptest.New(t, looptest.ToolThenDone("t1"))
	r.Deliver("p1", looptest.Prompt("go"))
	session := r.Events()[0].Session
	h := r.NewHost(looptest.ToolThenDone("t1"), func(o *host.Options) {
		open := o.Open
		o.Open = func(ctx context.Context, session string) (host.SessionLog, error) {
			opened++
			if err := fails; err != nil {
				if errors.Is(err, schemas.ErrConflict) {
					fails = nil
				}
				return nil, err
			}
			return open(ctx, session)
		}
	})
	for _, tt := range []struct {
		about, session string
		fails          error
		want           bool
		looks          int
	}{
		{"no log", "none", nil, true, 1}, {"a log", session, nil, false, 1},
		{"no answer", "none", errors.New("no answer"), false, 1},
		{"deleted by the first look", "none", fmt.Errorf("deleted: %w", schemas.ErrConflict), true, 2},
	} {
		opened, fails = 0, tt.fails
		if got := h.Absent(t.Context(), tt.session); got != tt.want || opened != tt.looks || h.Loaded() != 0 {
			t.Errorf("%s: absent %t after %d looks, %d sessions loaded", tt.about, got, opened, h.Loaded())
		}
	}
	fails, r.Host = nil, h
	r.Deliver("p2", looptest.Prompt("on"))
	opened = 0
	if h.Absent(t.Context(), session) || opened != 0 {
		t.Errorf("one that is loaded is absent, or was looked for %d times", opened)
	}
	// A session may be loaded after it was deleted, by a delivery that begins no log.
	if err := h.Deliver(t.Context(), schemas.Command{ID: "r1", Session: "none",
		Data: &schemas.ToolResponse{Call: "c1"}}, nil); err != nil || h.Loaded() != 2 {
		t.Fatalf("%d sessions loaded, %v", h.Loaded(), err)
	}
	if opened = 0; !h.Absent(t.Context(), "none") || opened != 1 {
		t.Errorf("one that is loaded without events is not absent after %d looks", opened)
	}
}

// An abort, or the answer to an approval, that nobody can ask about begins no session: a deleter sends such aborts, and
// the session may be deleted before one is delivered. A named one gets its outcome, and so does any other command.
func TestAnAnonymousAbortBeginsNoSession(t *testing.T) {
	t.Parallel()
	for _, data := range []schemas.CommandData{
		&schemas.Abort{}, &schemas.Approve{ApprovalAnswer: schemas.ApprovalAnswer{Call: "c9"}},
		&schemas.Deny{ApprovalAnswer: schemas.ApprovalAnswer{Call: "c9"}}, &schemas.ClearQueue{},
	} {
		_, begins := data.(*schemas.ClearQueue)
		for _, anonymous := range []bool{true, false} {
			r := looptest.New(t, looptest.ToolThenDone("t1"))
			c := schemas.Command{ID: "cmd-1", Session: "s1", Data: data, Anonymous: anonymous}
			if err := r.Host.Deliver(t.Context(), c, nil); err != nil {
				t.Fatal(err)
			}
			if n := len(r.Events()); (n > 0) != (begins || !anonymous) {
				t.Errorf("%s, anonymous %t: %d events", data.CommandKind(), anonymous, n)
			}
		}
	}
}
