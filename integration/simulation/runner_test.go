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
			Clock:  processClock{r.process}, Nonce: func() string { return "n" }, // seeds give the same again
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
		SubagentCheck: 10 * time.Second, // nothing is lost here: it must find nothing
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

// acts is called for everything that the log cannot fence: a call of a model or a tool. A runner that has been
// suspended since another one wrote must not get that far.
func (r *runner) acts(what, session string) {
	lost, at := r.lost(session)
	if lost && r.asleepSince(at, maxPause) {
		r.violated("%s: %s for %s, which another runner has extended at %s while this one was suspended", r.name, what,
			session, at.Format(clock))
	}
}

// lost reports whether another runner has extended a session that this one holds, and when first.
func (r *runner) lost(session string) (bool, time.Time) {
	r.mu.Lock()
	l := r.logs[session]
	r.mu.Unlock()
	l.mu.Lock()
	head := l.head
	l.mu.Unlock()
	return r.writtenBehind(session, head, r.source)
}

// goesOn is called when a model's reply continues. A runner that is awake must leave a session that it has lost: by
// then it has missed its consumer, has read anew, and asked the log; or has asked because it was time to.
func (r *runner) goesOn(session string) {
	lost, at := r.lost(session)
	if woke := r.awakeSince(); woke.After(at) {
		at = woke
	}
	if late := time.Since(at); lost && late > leaveWithin {
		r.violated("%s: is still at work for %s, which another runner has extended, after %s", r.name, session, late)
	}
}

const leaveWithin = 20 * time.Second

// maxPause is after how long a suspension a runner has to make sure that a session is its own.
const maxPause = 400 * time.Millisecond

// live takes the deltas, and wants what they belong to to be stored.
type live struct{ *process }

func (l *live) Update(_ context.Context, u schemas.Update) {
	if stored := l.stateOf(u.Session).Seq; stored < u.Event && !l.isDead() {
		l.violated("%s: a delta of event %d of %s, and the log ends at %d", l.name, u.Event, u.Session, stored)
	}
}

func (l *live) Flush(context.Context, string, uint64) {}

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
