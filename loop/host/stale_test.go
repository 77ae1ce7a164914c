package host_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// slowLog is a log whose events gather until a flush.
type slowLog struct {
	host.SessionLog
	flushed  chan struct{} // gets a token with each Flush
	appended chan struct{} // and with each Append

	mu       sync.Mutex
	gathered []schemas.Event
}

func (l *slowLog) Append(_ context.Context, e schemas.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gathered = append(l.gathered, e)
	l.appended <- struct{}{}
	return nil
}

func (l *slowLog) Send() {}

func (l *slowLog) store(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.gathered {
		if err := l.SessionLog.Append(ctx, e); err != nil {
			return err
		}
	}
	l.gathered = nil
	return l.SessionLog.Flush(ctx)
}

func (l *slowLog) Flush(ctx context.Context) error {
	err := l.store(ctx)
	l.flushed <- struct{}{}
	return err
}

func (l *slowLog) Confirm(ctx context.Context, since time.Time) error {
	if err := l.store(ctx); err != nil {
		return err
	}
	return l.SessionLog.Confirm(ctx, since)
}

// TestAStaleStateIsNotBelieved delivers the result of a call that another host has made to a host that does not know
// the call. Events that another delivery appends to the stale state in the meantime prove nothing: the result must not
// count as that of a call that has ended.
func TestAStaleStateIsNotBelieved(t *testing.T) {
	t.Parallel()
	const many = 1000
	flushed, appended := make(chan struct{}, many), make(chan struct{}, many)
	model := looptest.ToolThenDone("t1")
	r := looptest.New(t, model, func(o *host.Options) {
		open := o.Open
		o.Open = func(ctx context.Context, session string) (host.SessionLog, error) {
			log, err := open(ctx, session)
			return &slowLog{SessionLog: log, flushed: flushed, appended: appended}, err
		}
	})
	stale := r.Host
	r.Deliver("l1", &schemas.SetThinkingLevel{ThinkingLevel: "low"})
	r.Host = r.NewHost(model)
	r.Deliver("p1", looptest.Prompt("go"))
	id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")

	for len(flushed)+len(appended) > 0 {
		select {
		case <-flushed:
		case <-appended:
		}
	}
	second := make(chan error, 1)
	err := stale.Deliver(t.Context(), looptest.Command(id, result), func() {
		<-flushed // before this was called
		<-flushed // at the end of the delivery
		go func() {
			second <- stale.Deliver(t.Context(), looptest.Command("l2", &schemas.SetThinkingLevel{ThinkingLevel: "high"}), nil)
		}()
		<-appended
	})
	<-second
	if err == nil && r.Count(schemas.EventToolExecutionEnd) == 0 {
		t.Error("the result was dropped")
	}
}
