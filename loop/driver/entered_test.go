package driver_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// lateLog reports a refused append only at the next flush, as a log on a server does.
type lateLog struct {
	host.SessionLog
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

// The next command may enter when this one has. If entered were called before the log has confirmed the command, the
// next one could overtake a command that has to be redelivered.
func TestEnteredIsCalledAfterTheCommandIsStored(t *testing.T) {
	t.Parallel()
	done := looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		return looptest.Say("hi"),
			nil
	})
	r := looptest.New(t, done)
	late := func(o *host.Options) {
		o.Open = func(ctx context.Context, session string) (host.SessionLog, error) {
			log, err := r.Store.Open(ctx, session)
			return &lateLog{SessionLog: log}, err
		}
	}
	stale := r.NewHost(done, late)
	r.Host = stale
	r.Deliver("p1", looptest.Prompt("one"))
	r.Host = r.NewHost(done)
	r.Deliver("p2", looptest.Prompt("two"))
	entered := func() {
		if !slices.ContainsFunc(r.Events(), func(e schemas.Event) bool { return e.CausationID == "p3" }) {
			t.Error("the command was said to have entered, and is not in the log")
		}
	}
	if err := stale.Deliver(t.Context(), looptest.Command("p3", looptest.Prompt("three")), entered); err != nil {
		t.Error(err)
	}
}
