package driver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

var errNoServices = errors.New("this process cannot ask services")

// An inquiry asks services at one hook, one after the other: the program's own functions first, then those that the run
// names.
type inquiry struct {
	d    *Driver
	hook schemas.HookName
	refs []schemas.HookRef // of the run
	own  askFunc           // the program's function for the hook, nil for none
	name string            // of the function

	answered []string // who answered
	decided  bool     // some answer changed something
	deciders []string // whose it was
	reasons  []string
	failures []schemas.HookFailure
}

// askFunc asks whoever answers at a hook.
type askFunc func(ctx context.Context, req schemas.HookRequest) (schemas.HookAnswer, error)

// inquiry returns the inquiry of a hook, or nil where nobody is to be asked.
func (d *Driver) inquiry(hook schemas.HookName, refs []schemas.HookRef) *inquiry {
	var asked []schemas.HookRef
	for _, ref := range refs {
		if ref.Hook == hook {
			asked = append(asked, ref)
		}
	}
	name, own := d.function(hook)
	if len(asked) == 0 && own == nil {
		return nil
	}
	return &inquiry{d: d, hook: hook, own: own, name: name, refs: asked}
}

// inquiryOfRun is [Driver.inquiry] with the services of the run under way.
func (d *Driver) inquiryOfRun(hook schemas.HookName) *inquiry {
	var refs []schemas.HookRef
	d.View(func(s *loop.State) { refs = s.Config.Hooks })
	return d.inquiry(hook, refs)
}

// asksAt reports whether the run under way has services at a hook. The caller holds the lock.
func (d *Driver) asksAt(hook schemas.HookName) bool {
	return slices.ContainsFunc(d.state.Config.Hooks, func(r schemas.HookRef) bool { return r.Hook == hook })
}

// errDecided ends an inquiry: there is nothing left to decide.
var errDecided = errors.New("decided")

// ask asks one after the other. use makes use of an answer, for the next one's request too, and says whether something
// was decided by it; its error is the service's failure, but for errDecided. ask returns an error where the hook fails
// closed and a service has failed, where a function of the program fails the run, and that of ctx if it is done: then
// nothing was decided, and another process will ask. signal is what the services are asked under.
func (q *inquiry) ask(ctx, signal context.Context, req *schemas.HookRequest,
	use func(a schemas.HookAnswer) (decided bool, err error),
) error {
	q.address(req)
	if q.own != nil {
		answer, err := q.one(signal, q.name, q.own, *req)
		if err != nil {
			return err
		}
		if over, err := q.use(ctx, "", answer, use); over || err != nil {
			return err
		}
	}
	for _, ref := range q.refs {
		answer, err := q.one(signal, "hook service", q.service(ref), *req)
		over := false
		if err == nil {
			over, err = q.use(ctx, ref.Name(), answer, use)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if over {
			return nil
		}
		if err == nil {
			continue
		}
		if q.failed(ref, err); q.hook.FailsClosed() {
			return fmt.Errorf("%s of %s was not decided: %w", q.hook, ref.Name(), err)
		}
	}
	return nil
}

// use makes use of an answer of the named service and records who decided. over says that there is nothing left to
// decide.
func (q *inquiry) use(ctx context.Context, service string, a schemas.HookAnswer,
	use func(a schemas.HookAnswer) (decided bool, err error),
) (over bool, err error) {
	decided, err := use(a)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if over = errors.Is(err, errDecided); err == nil || over {
		q.recordAnswer(service, a, decided)
		return over, nil
	}
	return false, err
}

// address says what the request is about.
func (q *inquiry) address(req *schemas.HookRequest) {
	req.Hook, req.Session = q.hook, q.d.session
	q.d.View(func(s *loop.State) {
		if s.Run == nil {
			return
		}
		req.RunID = s.Run.ID
		if s.Run.Turn != nil {
			req.TurnID = s.Run.Turn.ID
		}
	})
}

// service asks the service of a reference.
func (q *inquiry) service(ref schemas.HookRef) askFunc {
	return func(ctx context.Context, req schemas.HookRequest) (answer schemas.HookAnswer, err error) {
		if q.d.o.Services == nil {
			return answer, errNoServices
		}
		return q.d.o.Services.Ask(ctx, ref, req)
	}
}

func (q *inquiry) one(ctx context.Context, who string, ask askFunc, req schemas.HookRequest) (schemas.HookAnswer,
	error) {
	req.Messages, req.Args = slices.Clone(req.Messages), bytes.Clone(req.Args) // the service's own
	if req.Result != nil {
		req.Result = ownResult(*req.Result)
	}
	return resultOf(q.d, who, func() (schemas.HookAnswer, error) { return ask(ctx, req) })
}

func (q *inquiry) failed(ref schemas.HookRef, err error) {
	q.d.logPanic(err)
	q.d.o.Logger.Warn("service did not answer at a hook", "hook", q.hook, "service", ref.Name(),
		"session", q.d.session, "err", err)
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	q.failures = append(q.failures, schemas.HookFailure{Service: ref.Name(), Error: text})
}

// recordAnswer records who answered and who decided. A function of the program has no name but the one that it gives
// itself.
func (q *inquiry) recordAnswer(service string, a schemas.HookAnswer, decided bool) {
	who := service
	switch {
	case who == "":
		who = a.By
	case a.By != "":
		who += ": " + a.By
	}
	if who != "" {
		q.answered = append(q.answered, who)
	}
	if !decided {
		return
	}
	q.decided = true
	if who != "" {
		q.deciders = append(q.deciders, who)
	}
	if a.Reason != "" {
		q.reasons = append(q.reasons, a.Reason)
	}
}

// decide asks, and puts the decision that use has made of the answers into the log, where somebody decided something or
// a service was asked. A function of the program that changes nothing leaves no event.
func (q *inquiry) decide(ctx, signal context.Context, req *schemas.HookRequest, decision *schemas.HookDecision,
	use func(a schemas.HookAnswer) (decided bool, err error),
) error {
	if err := q.ask(ctx, signal, req, use); err != nil || !q.decided && len(q.refs) == 0 {
		return err
	}
	q.record(decision)
	return q.d.emit(ctx, decision, decision.CommandID)
}

// record writes into the decision who decided: those who changed something, or all who agreed that there is nothing to
// change.
func (q *inquiry) record(d *schemas.HookDecision) {
	by := q.deciders
	if len(by) == 0 {
		by = q.answered
	}
	d.Hook, d.Failures = q.hook, q.failures
	d.By = cmp.Or(strings.Join(by, ", "), d.By)
	d.Reason = cmp.Or(d.Reason, strings.Join(q.reasons, "; "))
}
