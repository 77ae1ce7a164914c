package driver_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// lateLog tells of a refused append only when it is flushed, as a log on a server does.
type lateLog struct {
	driver.SessionLog
	mu  sync.Mutex
	err error
}

func (l *lateLog) Append(ctx context.Context, e schemas.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = l.SessionLog.Append(ctx, e)
	}
	return nil
}

func (l *lateLog) Flush(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	return l.SessionLog.Flush(ctx)
}

// The next command is let in when one has entered. Whoever says so before the log has said yes lets it pass one that has
// to be delivered again.
func TestACommandHasNotEnteredBeforeItIsStored(t *testing.T) {
	done := modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) { return say("hi"), nil })
	r := newRig(t, done)
	late := func(o *driver.HostOptions) {
		o.Open = func(ctx context.Context, session string) (driver.SessionLog, error) {
			log, err := r.store.Open(ctx, session)
			return &lateLog{SessionLog: log}, err
		}
	}
	stale := r.newHost(done, late)
	r.host = stale
	r.deliver("p1", prompt("one"))
	r.host = r.newHost(done)
	r.deliver("p2", prompt("two"))
	entered := func() {
		if !slices.ContainsFunc(r.events(), func(e schemas.Event) bool { return e.CausationID == "p3" }) {
			t.Error("the command was said to have entered, and is not in the log")
		}
	}
	if err := stale.Deliver(t.Context(), command("p3", prompt("three")), entered); err != nil {
		t.Error(err)
	}
}
