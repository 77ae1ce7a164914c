package simulation_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// runner is a process that drives sessions. One that is started again is another.
type runner struct {
	*process
	source string
	stop   context.CancelFunc // as SIGTERM does
	done   chan struct{}      // closed when it has ended

	mu   sync.Mutex
	logs map[string]*farLog // the newest of each session
}

// startRunner starts the nth runner of a slot.
func (w *world) startRunner(slot, n int) *runner {
	name := fmt.Sprintf("r%d-%d", slot, n)
	r := &runner{
		process: w.newProcess(name), source: "/loopbus/runner/" + name, done: make(chan struct{}), logs: map[string]*farLog{},
	}
	stop, cancel := context.WithCancel(w.ctx)
	r.stop = cancel
	work, end := context.WithCancelCause(r.ctx)
	context.AfterFunc(stop, func() { end(driver.ErrStopped) })
	in := newInbox(r.process, driver.NewHost(r.options()), work)
	w.running.Go(func() {
		defer close(r.done)
		in.run(stop)
		r.die()
		cancel()
	})
	w.note("%s: started", name)
	return r
}

func (r *runner) options() driver.HostOptions {
	o := driver.HostOptions{
		Open: r.open, Model: &model{r}, Tools: &dispatcher{r}, Toolbox: toolbox{}, Live: &live{r.process},
		Timers: &timers{r.process}, Clock: processClock{r.process}, Source: r.source,
		Defaults: schemas.RunConfig{
			Model: schemas.ModelRef{ID: "m"}, Limits: schemas.Limits{MaxTurns: 40},
			Retry:     schemas.RetryPolicy{MaxRetries: 2, BaseDelayMs: 700, MaxDelayMs: 5000},
			Fallbacks: []schemas.ModelRef{{ID: "fallback"}},
		},
		Retryable:     func(reply *schemas.AssistantMessage) bool { return reply.ErrorMessage == textOverloaded },
		CheckModel:    checkModel,
		IdleTimeout:   20 * time.Second,
		SnapshotEvery: 25, CacheSize: 2, CacheAge: 5 * time.Second, CallsInQueue: r.window,
	}
	switch d := newChance(r.seed).draw("limits"); {
	case d.percent(30):
		o.Defaults.Limits.RunTimeoutMs = 40_000
	case d.percent(10):
		o.Defaults.ToolExecution = schemas.ExecuteSequential
	}
	return o
}

func (r *runner) open(ctx context.Context, session string) (driver.SessionLog, error) {
	l, err := r.openLog(ctx, session)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs[session] = l
	return l, nil
}

// acts is told of everything that the log cannot fence: a call of a model or a tool. A runner that has been suspended
// since another one wrote must not get that far.
func (r *runner) acts(what, session string) {
	r.mu.Lock()
	l := r.logs[session]
	r.mu.Unlock()
	l.mu.Lock()
	head := l.head
	l.mu.Unlock()
	lost, at := r.writtenBehind(session, head, r.source)
	if lost && r.asleepSince(at, maxSilence) {
		r.violated("%s: %s for %s, which another runner has extended at %s while this one was suspended", r.name, what, session, at.Format(clock))
	}
}

// maxSilence is after how long a suspension a runner has to make sure that a session is its own.
const maxSilence = time.Second

// live takes the deltas, and wants what they belong to to be stored.
type live struct{ *process }

func (l *live) Update(_ context.Context, u schemas.Update) {
	if stored := l.stateOf(u.Session).Seq; stored < u.Event && !l.isDead() {
		l.violated("%s: a delta of event %d of %s, and the log ends at %d", l.name, u.Event, u.Session, stored)
	}
}

func (l *live) Settle(context.Context, string, uint64) {}

// timers are kept by the server.
type timers struct{ *process }

func (t *timers) Schedule(ctx context.Context, session string, at time.Time, timer schemas.Timer) error {
	return t.request(ctx, "schedule "+session, func() error {
		t.setTimer(session, at, timer)
		return nil
	})
}

func (t *timers) Cancel(ctx context.Context, session, name string) error {
	return t.request(ctx, "unschedule "+session, func() error {
		t.dropTimer(session, name)
		return nil
	})
}
