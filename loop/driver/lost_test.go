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
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// lines is a log that a test can read.
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

func (l *lines) into(o *host.Options) { o.Logger = slog.New(slog.NewTextHandler(l, nil)) }

// TestALostSessionIsLoggedOnce has a host find out, when its model has replied, that another one owns the session.
func TestALostSessionIsLoggedOnce(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, nil)
	other := r.NewHost(looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage,
		error) {
		return looptest.Say("hi"), nil
	}))
	var logged lines
	r.Host = r.NewHost(looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		return looptest.Say("late"), other.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil)
	}), logged.into)
	err := r.Host.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil)
	if !errors.Is(err, driver.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	got := logged.String()
	if strings.Count(got, "\n") != 1 || !strings.Contains(got,
		`msg="session lost: another runner has it" session=s1 seq=`) {
		t.Errorf("the log says:\n%s", got)
	}
}

// TestAStaleSessionIsNotLost has a session continue on another host while it is at rest here, and return.
func TestAStaleSessionIsNotLost(t *testing.T) {
	t.Parallel()
	hi := looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		return looptest.Say("hi"),
			nil
	})
	var logged lines
	r := looptest.New(t, hi, logged.into)
	r.Deliver("p1", looptest.Prompt("one"))
	here := r.Host
	r.Host = r.NewHost(hi)
	r.Deliver("p2", looptest.Prompt("two"))
	r.Host = here
	r.Deliver("p3", looptest.Prompt("three"))
	if n := r.Count(schemas.EventAgentEnd); n != 3 {
		t.Errorf("%d runs have ended, want 3", n)
	}
	if got := logged.String(); got != "" {
		t.Errorf("the log says:\n%s", got)
	}
}

// TestALogThatCannotBeOpened makes Open fail as a function that returns a nil pointer and an error.
func TestALogThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, nil, func(o *host.Options) {
		o.Open = func(context.Context, string) (host.SessionLog, error) {
			var none *eventstore.Log
			return none, context.Canceled
		}
	})
	err := r.Host.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the error of opening", err)
	}
	if n := r.Host.Loaded(); n != 0 {
		t.Errorf("%d sessions are loaded", n)
	}
}
