package driver_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// lines is a log to be read by a test.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *lines) into(o *driver.HostOptions) { o.Logger = slog.New(slog.NewTextHandler(l, nil)) }

// TestALostSessionIsToldOfOnce has a host find out, when its model has answered, that another one has the session.
func TestALostSessionIsToldOfOnce(t *testing.T) {
	r := newRig(t, nil)
	other := r.newHost(modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) { return say("hi"), nil }))
	var told lines
	r.host = r.newHost(modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		return say("late"), other.Deliver(t.Context(), command("p1", prompt("go")), nil)
	}), told.into)
	if err := r.host.Deliver(t.Context(), command("p1", prompt("go")), nil); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	got := told.String()
	if strings.Count(got, "\n") != 1 || !strings.Contains(got, `msg="session lost: another runner has it" session=s1 seq=`) {
		t.Errorf("the log says:\n%s", got)
	}
}

// TestAStaleSessionIsNotLost has a session go on elsewhere while it is at rest here, and come back.
func TestAStaleSessionIsNotLost(t *testing.T) {
	hi := modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) { return say("hi"), nil })
	var told lines
	r := newRig(t, hi, told.into)
	r.deliver("p1", prompt("one"))
	here := r.host
	r.host = r.newHost(hi)
	r.deliver("p2", prompt("two"))
	r.host = here
	r.deliver("p3", prompt("three"))
	if n := r.count(schemas.EventAgentEnd); n != 3 {
		t.Errorf("%d runs have ended, want 3", n)
	}
	if got := told.String(); got != "" {
		t.Errorf("the log says:\n%s", got)
	}
}

// TestALogThatCannotBeOpened has opening fail as functions fail that return a pointer and an error.
func TestALogThatCannotBeOpened(t *testing.T) {
	r := newRig(t, nil, func(o *driver.HostOptions) {
		o.Open = func(context.Context, string) (driver.SessionLog, error) {
			var none *eventstore.Log
			return none, context.Canceled
		}
	})
	if err := r.host.Deliver(t.Context(), command("p1", prompt("go")), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the error of opening", err)
	}
	if n := r.host.Held(); n != 0 {
		t.Errorf("%d sessions are held", n)
	}
}
