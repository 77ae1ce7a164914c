package assemble

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/held"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/progress"
)

var errNoFinish = schemas.NewFailure(schemas.FailureConnection, "stream ended without a stop reason")

// A Stream is a reply in progress. Only the goroutine of play may use it. Once the caller has left its loop, the
// methods do nothing, and the context of play is done.
type Stream struct {
	ctx     context.Context // of play
	req     *providers.Request
	yield   func(schemas.StreamEvent, error) bool
	cancel  context.CancelCauseFunc
	secrets []string           // of the request
	sent    *transport.Secrets // with its HTTP requests

	idle       *time.Timer // runs while play waits for the vendor; nil without a limit
	idleLimit  time.Duration
	progressed bool           // the reply has advanced since the last Alive
	grew       bool           // its content has
	stall      progress.Stall // the time without progress
	lingering  time.Duration  // until the end of the body, instead of idleLimit; 0 unless the reply may be complete
	hasty      bool           // the vendor told the end of the reply before it came

	limits   providers.Limits
	size     int64 // bytes of JSON of all blocks
	calls    int64
	values   int   // JSON values of the arguments of all calls that have ended
	exceeded error // the limit that the reply exceeded

	held     *held.Share // bytes of all blocks, in the budget of all replies
	started  bool
	left     bool // the caller has left its loop
	yielding bool // the caller's loop body runs: a panic in it is the caller's
	blocks   []*Block
	reply    schemas.AssistantMessage
}

// Run returns the stream that play produces for a request. play runs in the caller's goroutine while it ranges over
// the stream. Its context also ends when the caller leaves the loop or the vendor sends nothing for too long.
//
// If play returns nil after [Stream.Finish], the stream ends with done. Otherwise it ends with an error: aborted if
// ctx is done, or else the error or panic of play with its [schemas.FailureCode]. The message contains what was
// assembled until then.
func Run(ctx context.Context, req *providers.Request,
	play func(ctx context.Context, s *Stream) error) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		inner, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		s := newStream(inner, req, yield, cancel)
		defer s.held.Release()
		inner, s.sent = transport.WithSecrets(inner)
		err := ctx.Err()
		if err == nil {
			err = s.guard(inner, play)
		}
		s.pause()
		if s.size > small && (s.evicted() || held.Ended(err)) {
			s.blocks = nil // the message would have what it has to release
		}
		switch {
		case ctx.Err() != nil:
			s.end(schemas.StopAborted, "", providers.TextAborted)
		case s.exceeded != nil:
			s.fail(s.exceeded)
		case errors.Is(context.Cause(inner), errIdle) && err != nil:
			s.end(schemas.StopError, schemas.FailureTimeout, s.idleText())
		case held.Ended(context.Cause(inner)) && err != nil:
			s.fail(context.Cause(inner))
		case err == nil && s.reply.StopReason == "":
			s.fail(errNoFinish)
		case err != nil:
			s.fail(err)
		default:
			s.done()
		}
	}
}

func newStream(ctx context.Context, req *providers.Request, yield func(schemas.StreamEvent, error) bool,
	cancel context.CancelCauseFunc) *Stream {
	m := req.Model
	s := &Stream{ctx: ctx, req: req, yield: yield, cancel: cancel, idleLimit: req.IdleTimeout, secrets: secretsOf(req),
		held: held.Replies.Share(ctx, vendor(m), cancel)}
	s.limits = req.Limits.Or(providers.DefaultLimits)
	s.reply = schemas.AssistantMessage{API: m.API, Provider: m.Provider, Model: m.ID, Timestamp: req.Time().UnixMilli()}
	if s.idleLimit == 0 {
		s.idleLimit = providers.DefaultIdleTimeout
	}
	return s
}

// evicted returns whether the reply has to release its memory for others.
func (s *Stream) evicted() bool { return held.Ended(cmp.Or(s.exceeded, context.Cause(s.ctx))) }

// guard runs play and turns its panic into an error. A panic of the caller's loop body passes through.
func (s *Stream) guard(ctx context.Context, play func(context.Context, *Stream) error) (err error) {
	defer func() {
		if s.yielding {
			return
		}
		if r := recover(); r != nil {
			err = fmt.Errorf("panic in %s: %v", s.req.Model.API, r)
		}
	}()
	return play(ctx, s)
}

// Share returns a share of the budget of all replies, for what a reader of the reply holds. The stream fails if the
// share has to release its memory.
func (s *Stream) Share() *held.Share { return held.Replies.Share(s.ctx, vendor(s.req.Model), s.cancel) }

// vendor names who answers for a model.
func vendor(m *providers.Model) string { return cmp.Or(m.BaseURL, m.Provider) }

// Start records that the vendor has begun to answer. Only the first call counts; the other methods imply it.
func (s *Stream) Start() {
	if s.started {
		return
	}
	s.started = true
	identity := s.reply
	identity.StopReason = schemas.StopStop
	s.send(schemas.StreamEvent{Type: schemas.StreamStart, Message: &identity})
}

// SetResponseID sets the vendor's id of the reply and replaces an earlier one.
func (s *Stream) SetResponseID(id string) { s.set(&s.reply.ResponseID, id) }

// ResponseID returns the id set by [Stream.SetResponseID], or "".
func (s *Stream) ResponseID() string { return s.reply.ResponseID }

// SetResponseModel sets the id of the model that answered, if it differs from the requested one.
func (s *Stream) SetResponseModel(id string) { s.set(&s.reply.ResponseModel, id) }

// ResponseModel returns the id set by [Stream.SetResponseModel], or "".
func (s *Stream) ResponseModel() string { return s.reply.ResponseModel }

// SetUsage replaces the token counts. An impossible count becomes the nearest possible one. The total is at least the
// sum of the others: some servers omit it, and budgets count by it. The cost is computed from the model's rates.
func (s *Stream) SetUsage(u schemas.Usage) {
	u = u.Clamped()
	u.TotalTokens = max(u.TotalTokens, u.Input+u.Output+u.CacheRead+u.CacheWrite)
	s.progressed = s.progressed || u.Output > s.reply.Usage.Output
	u.Cost = s.req.Model.Price(u)
	s.reply.Usage = u.Clamped()
	if s.lingering > 0 {
		s.Linger()
	}
}

// Usage returns the token counts and costs set so far.
func (s *Stream) Usage() schemas.Usage { return s.reply.Usage }

// ScaleCost multiplies the cost, for service tiers with other prices. [Stream.SetUsage] undoes it.
func (s *Stream) ScaleCost(factor float64) {
	c := &s.reply.Usage.Cost
	*c = schemas.Cost{Input: c.Input * factor, Output: c.Output * factor, CacheRead: c.CacheRead * factor,
		CacheWrite: c.CacheWrite * factor}
	c.Total = c.Input + c.Output + c.CacheRead + c.CacheWrite
	s.reply.Usage = s.reply.Usage.Clamped()
}

// Finish records why the reply is complete: stop, length or toolUse. It may be called again until play returns.
func (s *Stream) Finish(reason schemas.StopReason) { s.reply.StopReason = reason }

// Finished returns the reason passed to [Stream.Finish], or "".
func (s *Stream) Finished() schemas.StopReason { return s.reply.StopReason }

// send yields an event, unless the caller has left its loop. The caller's time does not count towards the idle limit.
func (s *Stream) send(e schemas.StreamEvent) {
	if s.left {
		return
	}
	s.pause()
	s.progressed = s.progressed || progress.Made(e)
	s.stall.Pause()
	s.yielding = true
	more := s.yield(e, nil)
	s.yielding = false
	s.stall.Resume()
	if s.left = !more; s.left {
		s.cancel(nil)
		return
	}
	s.resume()
}

func (s *Stream) done() {
	s.Start()
	s.EndAll()
	s.reply.Content = s.content()
	s.send(schemas.StreamEvent{Type: schemas.StreamDone, Reason: s.reply.StopReason, Message: &s.reply})
	s.pause()
}

func (s *Stream) fail(err error) {
	s.end(schemas.StopError, schemas.FailureCodeOf(err), s.redact(transport.Text(err)))
}

func (s *Stream) end(reason schemas.StopReason, code schemas.FailureCode, text string) {
	s.reply.StopReason, s.reply.ErrorMessage = reason, s.shorten(text)
	s.reply.Content = s.content()
	s.send(schemas.StreamEvent{Type: schemas.StreamError, Reason: reason, FailureCode: code, Message: &s.reply})
	s.pause()
}
