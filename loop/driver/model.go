package driver

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/compaction"
	"github.com/loopbus/loopbus/loop/internal/panics"
	"github.com/loopbus/loopbus/schemas"
)

// textRequestAborted is the error text of a reply that was not requested because the run is to end.
const textRequestAborted = "Request was aborted"

// textOverProfile is the error text of a reply that was not requested because the budget of the session's profile is
// used up.
const textOverProfile = "No model was called: the budget of the profile is used up"

// TextOverBudget is the error text of a reply that was not requested because the budget of the run or session is used
// up.
const TextOverBudget = "No model was called: the budget of the run or of the session is used up"

var errNoEnd = errors.New("model stream ended without a terminal event")

// callModel streams one reply into the log: a message_start when the stream starts, a message_end when it ends.
func (d *Driver) callModel(ctx context.Context, step loop.CallModel) error {
	signal := d.runSignal(ctx)
	if step.Aborted {
		reply := &schemas.AssistantMessage{StopReason: schemas.StopAborted, ErrorMessage: textRequestAborted}
		return d.failWith(ctx, reply, schemas.MessageEnd{})
	}
	if step.Refused != "" {
		reply := &schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: TextOverBudget}
		return d.failWith(ctx, reply, schemas.MessageEnd{TerminationReason: step.Refused})
	}
	if step.Unready != "" {
		return d.fail(ctx, errors.New(step.Unready))
	}
	if refused, err := d.overProfile(ctx); refused || err != nil {
		return err
	}
	if err := d.room(); err != nil {
		return err
	}
	req, err := d.request(ctx, signal)
	switch {
	case errors.Is(err, schemas.ErrLater):
		return err
	case err != nil:
		return d.fail(ctx, err)
	}
	if err := d.verifyOwnership(ctx); err != nil {
		return err
	}
	span := d.startModelSpan(ctx, req.Model)
	payloads := d.payloads(ctx, signal)
	if payloads != nil {
		req.OnPayload = payloads.ask
	}
	c := &modelCall{
		d: d, ctx: ctx, req: req, payloads: payloads, started: d.o.Clock.Now(), feed: feed{d: d},
	}
	err = panics.Guard("model call", func() error { return c.stream(signal) })
	span.End(c.spanEnd(err))
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // the driver stops: the next one calls the model again
	case errors.Is(err, schemas.ErrLater):
		return err
	case err != nil:
		return d.fail(ctx, err)
	}
	return nil
}

// room asks for the memory that the session takes by now.
func (d *Driver) room() error { return d.roomWith(0) }

// roomWith asks for the memory that the session takes with more bytes.
func (d *Driver) roomWith(more int) error {
	if d.o.Room == nil {
		return nil
	}
	bytes := more
	d.View(func(s *loop.State) { bytes += s.Bytes() })
	return d.o.Room(bytes)
}

// request builds the model's request from the run's configuration and what the hooks make of the transcript.
func (d *Driver) request(ctx, signal context.Context) (req schemas.ModelRequest, err error) {
	d.View(func(s *loop.State) {
		req = schemas.ModelRequest{
			Model: s.Config.Model, SystemPrompt: s.Config.SystemPrompt, Messages: s.Transcript(), Tools: s.Config.Tools,
			ThinkingLevel: s.Config.ThinkingLevel, SessionID: d.session, Attempt: s.Attempt(),
		}
	})
	if req.ThinkingLevel == schemas.ThinkingOff {
		req.ThinkingLevel = ""
	}
	h := d.o.Hooks
	req.Messages, err = d.askContext(ctx, signal, req.Messages)
	if err == nil && h.ConvertToLLM != nil {
		req.Messages, err = resultOf(d, "convertToLlm", func() (schemas.Messages, error) {
			return h.ConvertToLLM(signal, req.Messages)
		})
	} else if err == nil {
		req.Messages = compaction.ToLLM(req.Messages)
	}
	if err == nil {
		err = d.apiKey(signal, &req)
	}
	return req, err
}

// payloads asks the services of before_provider_request during one model call, in the goroutine that makes the request.
// The goroutine that drives records what they decided.
type payloads struct {
	d           *Driver
	ctx, signal context.Context
	inquiry     inquiry // to copy for each question

	mu      sync.Mutex
	asked   bool
	later   error                   // there was no memory for an answer, and so no request
	decided []*schemas.HookDecision // not recorded yet
}

// payloads returns nil if the run has no service for the hook.
func (d *Driver) payloads(ctx, signal context.Context) *payloads {
	q := d.inquiryOfRun(schemas.HookBeforeProviderRequest)
	if q == nil {
		return nil
	}
	return &payloads{d: d, ctx: ctx, signal: signal, inquiry: *q}
}

// ask returns the payload to send to the vendor in place of the given one.
func (p *payloads) ask(_ context.Context, payload json.RawMessage) (json.RawMessage, error) {
	q, decision := p.inquiry, new(schemas.HookDecision)
	req := &schemas.HookRequest{Payload: payload}
	err := q.ask(p.ctx, p.signal, req, func(a schemas.HookAnswer) (bool, error) {
		if len(a.Payload) == 0 {
			return false, nil
		}
		req.Payload, decision.Changed = a.Payload, []string{"payload"}
		return true, nil
	})
	if err == nil {
		err = p.signal.Err()
	}
	q.record(decision)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = true
	p.decided = append(p.decided, decision)
	if errors.Is(err, schemas.ErrLater) {
		p.later = err
	}
	return req.Payload, err
}

// unsent returns why no request was made that has to be made later, nil if there was one.
func (p *payloads) unsent() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.later
}

// record appends the decisions to the log. over reports that the reply is complete: if no service could be asked until
// then, each of them has failed.
func (p *payloads) record(over bool) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	decided := p.decided
	p.decided = nil
	if over && !p.asked {
		p.asked = true
		q, decision := p.inquiry, new(schemas.HookDecision)
		for _, ref := range q.refs {
			q.failed(ref, errNoPayload)
		}
		q.record(decision)
		decided = append(decided, decision)
	}
	p.mu.Unlock()
	for _, decision := range decided {
		if err := p.d.emit(p.ctx, decision, ""); err != nil {
			return err
		}
	}
	return nil
}

// errNoPayload is why no service was asked at before_provider_request.
var errNoPayload = errors.New("the model's request was not made by this process, or was signed before it could be seen")

// apiKey puts the key that the hook GetAPIKey returns into a request.
func (d *Driver) apiKey(signal context.Context, req *schemas.ModelRequest) error {
	if d.o.Hooks.GetAPIKey == nil {
		return nil
	}
	key, err := resultOf(d, "getApiKey", func() (string, error) { return d.o.Hooks.GetAPIKey(signal, req.Model.Provider) })
	req.APIKey = key
	return err
}

var errIdle = errors.New("model idle")

// idleWatch cancels a model call that has sent no event for too long. Thinking and tool arguments count as events,
// pings do not. It runs only during the call, never while tools run. The zero value watches nothing. Only the goroutine
// that reads the model may use it.
type idleWatch struct {
	d      *Driver
	ctx    context.Context
	cancel context.CancelCauseFunc
	stop   func() bool
}

// start returns the context of the call and a function that stops the watch.
func (w *idleWatch) start(d *Driver, ctx context.Context) (context.Context, func()) {
	if d.o.IdleTimeout <= 0 {
		return ctx, func() {}
	}
	w.d = d
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.reset()
	return w.ctx, func() {
		w.stop()
		w.cancel(nil)
	}
}

// reset restarts the idle time.
func (w *idleWatch) reset() {
	if w.d == nil {
		return
	}
	if w.stop != nil {
		w.stop()
	}
	w.stop = w.d.o.Clock.AfterFunc(w.d.o.IdleTimeout, func() { w.cancel(errIdle) })
}

// fired reports whether the watch cancelled the call.
func (w *idleWatch) fired() bool { return w.ctx != nil && errors.Is(context.Cause(w.ctx), errIdle) }
