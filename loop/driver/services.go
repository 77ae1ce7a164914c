package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// Services asks the services that a run's hooks name (docs/hooks.md). Ask returns within the reference's time limit. An
// error says, for the log, why there is no answer.
type Services interface {
	Ask(ctx context.Context, to schemas.HookRef, req schemas.HookRequest) (schemas.HookAnswer, error)
}

var errNoServices = errors.New("this process cannot ask services")

// hearing is services being asked at one hook, in their order.
type hearing struct {
	d    *Driver
	hook schemas.HookName
	refs []schemas.HookRef

	heard    []string // who answered
	deciders []string // whose answer changed something
	reasons  []string
	failures []schemas.HookFailure
}

// hear returns the hearing of a hook, or nil where nobody is to be asked.
func (d *Driver) hear(hook schemas.HookName, refs []schemas.HookRef) *hearing {
	h := &hearing{d: d, hook: hook}
	for _, ref := range refs {
		if ref.Hook == hook {
			h.refs = append(h.refs, ref)
		}
	}
	if len(h.refs) == 0 {
		return nil
	}
	return h
}

// hearOfRun is [Driver.hear] with the services of the run under way.
func (d *Driver) hearOfRun(hook schemas.HookName) *hearing {
	var refs []schemas.HookRef
	d.View(func(s *loop.State) { refs = s.Config.Hooks })
	return d.hear(hook, refs)
}

// hears reports whether the run under way has services at a hook. The caller holds the lock.
func (d *Driver) hears(hook schemas.HookName) bool {
	return slices.ContainsFunc(d.state.Config.Hooks, func(r schemas.HookRef) bool { return r.Hook == hook })
}

// errDecided ends a hearing: there is nothing left to decide.
var errDecided = errors.New("decided")

// ask asks one after the other. take makes use of an answer, for the next one's request too, and says whether something was
// decided by it; its error is the service's failure, but for errDecided. ask returns an error where the hook fails closed
// and a service has failed, and that of ctx if it is done: then nothing was decided, and another process will ask. signal
// is what the services are asked under.
func (h *hearing) ask(ctx, signal context.Context, req *schemas.HookRequest,
	take func(a schemas.HookAnswer) (decided bool, err error),
) error {
	h.address(req)
	for _, ref := range h.refs {
		answer, err := h.one(signal, ref, *req)
		decided := false
		if err == nil {
			decided, err = take(answer)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil || errors.Is(err, errDecided) {
			h.note(ref, answer, decided)
		} else if h.failed(ref, err); h.hook.FailsClosed() {
			return fmt.Errorf("%s of %s was not decided: %w", h.hook, ref.Name(), err)
		}
		if errors.Is(err, errDecided) {
			return nil
		}
	}
	return nil
}

// address says what the request is about.
func (h *hearing) address(req *schemas.HookRequest) {
	req.Hook, req.Session = h.hook, h.d.session
	h.d.View(func(s *loop.State) {
		if s.Run == nil {
			return
		}
		req.RunID = s.Run.ID
		if s.Run.Turn != nil {
			req.TurnID = s.Run.Turn.ID
		}
	})
}

func (h *hearing) one(ctx context.Context, ref schemas.HookRef, req schemas.HookRequest) (answer schemas.HookAnswer, err error) {
	if h.d.o.Services == nil {
		return answer, errNoServices
	}
	err = guard("hook service", func() (err error) {
		answer, err = h.d.o.Services.Ask(ctx, ref, req)
		return err
	})
	h.d.logPanic(err)
	return answer, err
}

func (h *hearing) failed(ref schemas.HookRef, err error) {
	h.d.o.Logger.Warn("hook not heard", "hook", h.hook, "service", ref.Name(), "session", h.d.session, "err", err)
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	h.failures = append(h.failures, schemas.HookFailure{Service: ref.Name(), Error: text})
}

func (h *hearing) note(ref schemas.HookRef, a schemas.HookAnswer, decided bool) {
	who := ref.Name()
	if a.By != "" {
		who += ": " + a.By
	}
	h.heard = append(h.heard, who)
	if !decided {
		return
	}
	h.deciders = append(h.deciders, who)
	if a.Reason != "" {
		h.reasons = append(h.reasons, a.Reason)
	}
}

// record writes into the decision who decided: those who changed something, or all who agreed that there is nothing to
// change.
func (h *hearing) record(d *schemas.HookDecision) {
	by := h.deciders
	if len(by) == 0 {
		by = h.heard
	}
	d.Hook, d.Failures = h.hook, h.failures
	d.By = orDefault(strings.Join(by, ", "), d.By)
	d.Reason = orDefault(d.Reason, strings.Join(h.reasons, "; "))
}
