package simulation_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// runner is a process that drives sessions. A restarted runner is a new process.
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
	in := newInbox(r.process, host.New(r.options()), work)
	w.running.Go(func() {
		defer close(r.done)
		in.run(stop)
		r.die()
		cancel()
	})
	w.note("%s: started", name)
	return r
}

func (r *runner) options() host.Options {
	o := host.Options{
		Deps: driver.Deps{
			Model: &model{r}, Tools: &dispatcher{r}, Live: &live{r.process}, Timers: &timers{r.process},
			Outbox: &outbox{r.process},
			Clock:  processClock{r.process}, Nonce: func() string { return "n" }, // constant, so that a seed can be repeated
			Source: r.source, IdleTimeout: 20 * time.Second, CallWindow: r.window,
			Retryable: func(reply *schemas.AssistantMessage) bool { return reply.ErrorMessage == textOverloaded },
		},
		Open: r.open, Toolbox: toolbox{},
		Defaults: schemas.RunConfig{
			Model: schemas.ModelRef{ID: "m"}, Limits: schemas.Limits{MaxTurns: 40},
			Retry:     schemas.RetryPolicy{MaxRetries: 2, BaseDelayMs: 700, MaxDelayMs: 5000},
			Fallbacks: []schemas.ModelRef{{ID: "fallback"}},
		},
		CheckModel:    checkModel,
		SubagentCheck: 10 * time.Second, // no message is lost here, so the check must find nothing
		SnapshotEvery: 25, CacheSize: 2, CacheAge: 5 * time.Second,
		Policy: schemas.ToolPolicy{Extensions: []string{schemas.ToolAgent}},
	}
	switch d := newChance(r.seed).draw("limits"); {
	case d.percent(30):
		o.Defaults.Limits.RunTimeoutMs = 40_000
	case d.percent(10):
		o.Defaults.ToolExecution = schemas.ExecuteSequential
	}
	return o
}

func (r *runner) open(ctx context.Context, session string) (host.SessionLog, error) {
	l, err := r.openLog(ctx, session)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs[session] = l
	return l, nil
}

// acts is called for each action that the log cannot fence: a call of a model or a tool. A runner that was suspended
// after another one extended the session must not act.
func (r *runner) acts(what, session string) {
	lost, at := r.lost(session)
	if lost && r.asleepSince(at, maxPause) {
		r.violated("%s: %s for %s, which another runner has extended at %s while this one was suspended", r.name, what,
			session, at.Format(clock))
	}
}

// lost reports whether another runner has extended a session that this one drives, and when it first did.
func (r *runner) lost(session string) (bool, time.Time) {
	r.mu.Lock()
	l := r.logs[session]
	r.mu.Unlock()
	l.mu.Lock()
	head := l.head
	l.mu.Unlock()
	return r.writtenBehind(session, head, r.source)
}

// goesOn is called when a model's reply continues. A runner that is not suspended must stop work on a session that it
// has lost within leaveWithin: by then it has missed its consumer, created another one and verified the session; or it
// has verified the session in its periodic check.
func (r *runner) goesOn(session string) {
	lost, at := r.lost(session)
	if woke := r.awakeSince(); woke.After(at) {
		at = woke
	}
	if late := time.Since(at); lost && late > leaveWithin {
		r.violated("%s: still works on %s, which another runner has extended, after %s", r.name, session, late)
	}
}

const leaveWithin = 20 * time.Second

// maxPause is the suspension after which a runner has to verify that it still owns a session.
const maxPause = 400 * time.Millisecond

// live receives the deltas, and checks that their message_start is stored.
type live struct{ *process }

func (l *live) Update(_ context.Context, u schemas.Update) {
	if stored := l.stateOf(u.Session).Seq; stored < u.Event && !l.isDead() {
		l.violated("%s: a delta of event %d of %s, but the log ends at %d", l.name, u.Event, u.Session, stored)
	}
}

func (l *live) Flush(context.Context, string, uint64) {}

// timers are the timers of the server.
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
