package simulation_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errDead     = errors.New("the process is dead")
	errNoAnswer = errors.New("no answer")
	errRefused  = errors.New("consumer refused")
)

// requestTimeout is how long a process waits for an answer that was lost.
const requestTimeout = 2 * time.Second

// process is a simulated process that can die and be suspended. Every externally visible action of its goroutines goes
// through it.
type process struct {
	*world
	name string
	ctx  context.Context // ends when it dies
	kill context.CancelCauseFunc

	refused atomic.Bool   // the servers create no consumers for it
	offset  time.Duration // of its clock

	mu   sync.Mutex
	dead bool
	connection
	frozen chan struct{} // closed when it continues; nil while it is not suspended
	slept  time.Time     // when it was last suspended
	woke   time.Time     // when it continued after that
}

func (w *world) newProcess(name string) *process {
	p := &process{world: w, name: name}
	p.again = make(chan struct{}, 1)
	p.ctx, p.kill = context.WithCancelCause(w.ctx)
	if d := w.draw("clock " + name); d.percent(50) {
		p.offset = d.between(-3*time.Second, 2*time.Second)
	}
	return p
}

// pass waits while the process is suspended, and returns an error when it is dead. Waiting goroutines do not continue
// at the same time.
func (p *process) pass(what string) error {
	for slept := false; ; slept = true {
		p.mu.Lock()
		dead, frozen := p.dead, p.frozen
		p.mu.Unlock()
		switch {
		case dead:
			return errDead
		case frozen != nil:
			<-frozen
		case slept:
			time.Sleep(p.draw(p.name+" wakes "+what).between(0, 200*time.Microsecond))
			return p.pass(what)
		default:
			return nil
		}
	}
}

// die ends the process at once.
func (p *process) die() {
	p.mu.Lock()
	p.dead = true
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
	p.mu.Unlock()
	p.kill(errDead)
}

// freeze suspends the process, unless it is suspended.
func (p *process) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil && !p.dead {
		p.frozen, p.slept = make(chan struct{}), time.Now()
	}
}

// thaw lets the process continue.
func (p *process) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen, p.woke = nil, time.Now()
	}
}

// asleepSince reports whether the process was suspended for longer than d after a time.
func (p *process) asleepSince(at time.Time, d time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.woke.After(at) && p.woke.Sub(p.slept) > d
}

// awakeSince returns when the process last continued after a suspension.
func (p *process) awakeSince() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.woke
}

// ask sends a request to a server and waits for the answer. A request that was sent arrives even if its sender dies in
// the meantime, and may arrive after the sender has stopped waiting.
func ask[T any](ctx context.Context, p *process, what string, effect func() (T, error)) (answer T, err error) {
	if err := p.pass(what); err != nil {
		return answer, err
	}
	type reply struct {
		answer T
		err    error
	}
	replied := make(chan reply, 1)
	r := p.draw(p.name + " " + what)
	there, back, fault := r.latency(), r.latency(), p.faulty()
	lost, unanswered := fault && r.permille(8) || p.isCut(), fault && r.permille(8)
	if what == "create" && fault { // more often than they would be: what a consumer leaves behind can last
		lost = lost || r.percent(20)
	}
	late := lost && r.percent(80) // a client library or a suspended server has kept the request
	if late {
		there += requestTimeout + r.about(8*time.Second)
	}
	if late || !lost {
		time.AfterFunc(there, func() {
			answer, err := effect()
			replied <- reply{answer, err}
		})
	}
	wait := there + back
	if lost || unanswered {
		wait = requestTimeout + back
	}
	if err := sleep(ctx, wait); err != nil {
		return answer, err
	}
	if err := p.pass(what); err != nil {
		return answer, err
	}
	if lost || unanswered || p.isCut() {
		return answer, errNoAnswer
	}
	got := <-replied
	return got.answer, got.err
}

// request is [ask] for requests whose answer is only an error.
func (p *process) request(ctx context.Context, what string, effect func() error) error {
	_, err := ask(ctx, p, what, func() (struct{}, error) { return struct{}{}, effect() })
	return err
}

// send sends a message to a server without waiting for an answer.
func (p *process) send(what string, effect func()) {
	if p.pass(what) != nil {
		return
	}
	r := p.draw(p.name + " " + what)
	if there := r.latency(); !p.isCut() && (!p.faulty() || !r.permille(8)) {
		time.AfterFunc(there, effect)
	}
}

// sleep waits for d, or returns the cause of the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// processClock is the clock of the process: it may be ahead of or behind that of the servers, and no timer fires while
// the process is suspended.
type processClock struct{ *process }

func (c processClock) Now() time.Time { return time.Now().Add(c.offset) }

func (c processClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(d, func() {
		if c.pass("clock") == nil {
			f()
		}
	}).Stop
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}
