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

// An inquiry asks about one event at one hook: first the program's own function, then the services that the run names,
// one after the other.
type inquiry struct {
	d    *Driver
	hook schemas.HookName
	refs []schemas.HookRef // the services
	own  askFunc           // the program's function for the hook, nil for none

	answered []string // names of those that answered
	decided  bool     // an answer changed something
	deciders []string // names of those whose answer did
	reasons  []string
	failures []schemas.HookFailure
}

// askFunc asks a function of the program.
type askFunc func(ctx context.Context, req schemas.HookRequest) (schemas.HookAnswer, error)

// useFunc makes use of an answer, for the next request too, and reports whether the answer decided something. Its error
// counts as the failure of the service that answered, except for errDecided.
type useFunc func(a schemas.HookAnswer) (decided bool, err error)

// inquiry returns the inquiry of a hook, or nil if there is neither a function nor a service for it.
func (d *Driver) inquiry(hook schemas.HookName, refs []schemas.HookRef) *inquiry {
	var asked []schemas.HookRef
	for _, ref := range refs {
		if ref.Hook == hook {
			asked = append(asked, ref)
		}
	}
	own := d.function(hook)
	if len(asked) == 0 && own == nil {
		return nil
	}
	return &inquiry{d: d, hook: hook, own: own, refs: asked}
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

// errDecided is returned by a useFunc after whose answer there is nothing left to decide.
var errDecided = errors.New("decided")

// ask asks the function and the services in order, under the context signal. It returns an error if a service failed
// and the hook fails closed, if the program's function failed, and ctx's error if ctx is done. The error wraps
// [schemas.ErrLater] if there is no memory for an answer. In these two cases nothing was decided, and the next process
// asks again.
func (q *inquiry) ask(ctx, signal context.Context, req *schemas.HookRequest, use useFunc) error {
	q.address(req)
	if q.own != nil {
		answer, err := q.own(signal, copyOf(*req))
		if err != nil {
			return err
		}
		if over, err := q.use(ctx, "", answer, use); over || err != nil {
			return err
		}
	}
	for _, ref := range q.refs {
		answer, err := q.service(signal, ref, copyOf(*req))
		over := false
		if err == nil {
			err = q.room(answer)
		}
		if err == nil {
			over, err = q.use(ctx, ref.Name(), answer, use)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case over:
			return nil
		case err == nil:
			continue
		case errors.Is(err, schemas.ErrLater):
			return err
		}
		if q.failed(ref, err); q.hook.FailsClosed() {
			return fmt.Errorf("%s of %s was not decided: %w", q.hook, ref.Name(), err)
		}
	}
	return nil
}

// smallAnswer is the size of an answer that takes no room.
const smallAnswer = 4 << 10

// room asks for the memory of an answer besides that of the session, as models and further services may be slow. A
// message would be lost if the session had to wait for that, so the service has failed then.
func (q *inquiry) room(a schemas.HookAnswer) error {
	n := a.Size()
	if n <= smallAnswer {
		return nil
	}
	err := q.d.roomWith(n)
	if err != nil && q.hook == schemas.HookMessageEnd {
		return fmt.Errorf("there is no memory for its answer of %d bytes now", n)
	}
	return err
}

// use makes use of an answer and records who gave it; service is empty for the program's function. over reports that
// nothing is left to decide.
func (q *inquiry) use(ctx context.Context, service string, a schemas.HookAnswer, use useFunc) (over bool, err error) {
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

// address fills in what a request is about.
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
func (q *inquiry) service(ctx context.Context, ref schemas.HookRef, req schemas.HookRequest) (
	schemas.HookAnswer, error,
) {
	return resultOf(q.d, "hook service", func() (answer schemas.HookAnswer, err error) {
		if q.d.o.Services == nil {
			return answer, errNoServices
		}
		return q.d.o.Services.Ask(ctx, ref, req)
	})
}

// copyOf returns a copy of a request that a function or a service may change.
func copyOf(req schemas.HookRequest) schemas.HookRequest {
	req.Messages, req.Args = slices.Clone(req.Messages), bytes.Clone(req.Args)
	if req.Result != nil {
		result := *req.Result
		result.Content, result.Details = slices.Clone(result.Content), bytes.Clone(result.Details)
		req.Result = &result
	}
	return req
}

func (q *inquiry) failed(ref schemas.HookRef, err error) {
	q.d.logPanic(err)
	q.d.o.Logger.Warn("service did not answer at a hook", "hook", q.hook, "service", ref.Name(),
		"session", q.d.session, "err", err)
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	q.failures = append(q.failures, schemas.HookFailure{Service: ref.Name(), Error: text})
}

// recordAnswer records who answered and who decided. A function of the program has only the name that it gives itself
// in By.
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

// decide asks, and appends the decision if something was decided or a service was asked. A function of the program that
// changes nothing leaves no event.
func (q *inquiry) decide(ctx, signal context.Context, req *schemas.HookRequest, decision *schemas.HookDecision,
	use useFunc,
) error {
	if err := q.ask(ctx, signal, req, use); err != nil {
		return err
	}
	return q.conclude(ctx, decision)
}

func (q *inquiry) conclude(ctx context.Context, decision *schemas.HookDecision) error {
	if !q.decided && len(q.refs) == 0 {
		return nil
	}
	q.record(decision)
	return q.d.emit(ctx, decision, decision.CommandID)
}

// record completes a decision with the names of those that changed something, or, if none did, of all that answered.
func (q *inquiry) record(d *schemas.HookDecision) {
	by := q.deciders
	if len(by) == 0 {
		by = q.answered
	}
	d.Hook, d.Failures = q.hook, q.failures
	d.By = cmp.Or(strings.Join(by, ", "), d.By)
	d.Reason = cmp.Or(d.Reason, strings.Join(q.reasons, "; "))
}
