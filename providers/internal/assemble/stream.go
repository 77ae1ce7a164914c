package assemble

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/schemas"
)

var (
	errNoFinish = schemas.NewFailure(schemas.FailureConnection, "stream ended without a stop reason")
	errIdle     = errors.New("idle")
)

// A Stream is a reply in the making. It is for the goroutine that play runs in. Once the reader has left, its
// methods do nothing, and the context of play is done.
type Stream struct {
	req     *providers.Request
	yield   func(schemas.StreamEvent, error) bool
	cancel  context.CancelCauseFunc
	idle    *time.Timer // runs while the vendor is waited for; nil without a limit
	limit   time.Duration
	grown   bool      // the reply has got on since the last Alive
	still   time.Time // since when it has not; zero if it has
	secrets []string

	limits providers.Limits
	size   int64 // bytes of all blocks
	calls  int64
	values int   // JSON values of the arguments of all calls that have ended
	over   error // a limit that the reply went beyond

	started bool
	gone    bool // the reader wants no more
	telling bool // the reader has the floor: a panic now is its own
	blocks  []*Block
	reply   schemas.AssistantMessage
}

// Run returns the stream that play makes of a request. play runs while the stream is read, in the reader's goroutine,
// with a context that is also done when the reader goes away or the vendor has been silent for too long.
//
// Where play returns nil after [Stream.Finish], the stream ends with done. Else it ends with an error: aborted if ctx
// is done, else what play returned or panicked with, and its [schemas.FailureCode]. What has been assembled until then
// stays in the message.
func Run(ctx context.Context, req *providers.Request,
	play func(ctx context.Context, s *Stream) error) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		inner, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		s := newStream(req, yield, cancel)
		err := ctx.Err()
		if err == nil {
			err = s.guard(inner, play)
		}
		s.pause()
		switch {
		case ctx.Err() != nil:
			s.end(schemas.StopAborted, "", providers.TextAborted)
		case s.over != nil:
			s.fail(s.over)
		case errors.Is(context.Cause(inner), errIdle) && err != nil:
			s.end(schemas.StopError, schemas.FailureTimeout, s.idleText())
		case err == nil && s.reply.StopReason == "":
			s.fail(errNoFinish)
		case err != nil:
			s.fail(err)
		default:
			s.done()
		}
	}
}

func newStream(req *providers.Request, yield func(schemas.StreamEvent, error) bool,
	cancel context.CancelCauseFunc) *Stream {
	m := req.Model
	s := &Stream{req: req, yield: yield, cancel: cancel, limit: req.IdleTimeout, secrets: secretsOf(req)}
	s.limits = req.Limits.Or(providers.DefaultLimits)
	s.reply = schemas.AssistantMessage{API: m.API, Provider: m.Provider, Model: m.ID, Timestamp: req.Time().UnixMilli()}
	if s.limit == 0 {
		s.limit = providers.DefaultIdleTimeout
	}
	return s
}

// guard runs play and makes an error of its panics. One of the reader's goes through.
func (s *Stream) guard(ctx context.Context, play func(context.Context, *Stream) error) (err error) {
	defer func() {
		if s.telling {
			return
		}
		if r := recover(); r != nil {
			err = fmt.Errorf("panic in %s: %v", s.req.Model.API, r)
		}
	}()
	return play(ctx, s)
}

// Start says that the vendor has begun to answer. It does so once; the other methods imply it.
func (s *Stream) Start() {
	if s.started {
		return
	}
	s.started = true
	identity := s.reply
	identity.StopReason = schemas.StopStop
	s.send(schemas.StreamEvent{Type: schemas.StreamStart, Message: &identity})
}

// Alive starts the idle limit, or restarts it, for heartbeats that are no events of the stream. Mere keep-alives are
// none. Heartbeats with which the reply does not get on do so for [providers.IdlePatience] times the limit.
func (s *Stream) Alive() {
	switch {
	case s.grown:
		s.grown, s.still = false, time.Time{}
	case s.still.IsZero():
		s.still = time.Now()
	}
	s.pause()
	s.resume()
}

// SetResponseID sets the vendor's id of the reply, also over an earlier one.
func (s *Stream) SetResponseID(id string) { s.set(&s.reply.ResponseID, id) }

// ResponseID returns what was set, or nothing.
func (s *Stream) ResponseID() string { return s.reply.ResponseID }

// SetResponseModel sets the id of the model that answered, where it is not the one asked.
func (s *Stream) SetResponseModel(id string) { s.set(&s.reply.ResponseModel, id) }

// ResponseModel returns what was set, or nothing.
func (s *Stream) ResponseModel() string { return s.reply.ResponseModel }

// SetUsage sets the tokens counted so far, over those set before; a count that cannot be is the next that can. What
// they cost is added by the model's rates.
func (s *Stream) SetUsage(u schemas.Usage) {
	overflown := u.TotalTokens < 0
	if u = u.Clamped(); overflown {
		u.TotalTokens = u.Input + u.Output + u.CacheRead + u.CacheWrite
	}
	s.grown = s.grown || u.Output > s.reply.Usage.Output
	u.Cost = s.req.Model.Price(u)
	s.reply.Usage = u.Clamped()
}

// idleText says for how long nothing came, or nothing that got the reply on.
func (s *Stream) idleText() string {
	if most := providers.IdlePatience * s.limit; !s.still.IsZero() && time.Since(s.still) >= most {
		return fmt.Sprintf("stream timed out: nothing but heartbeats for %s", most)
	}
	return fmt.Sprintf("stream timed out: nothing for %s", s.limit)
}

// Usage returns the tokens set so far.
func (s *Stream) Usage() schemas.Usage { return s.reply.Usage }

// ScaleCost multiplies the cost, for tiers of service that have other prices. [Stream.SetUsage] undoes it.
func (s *Stream) ScaleCost(factor float64) {
	c := &s.reply.Usage.Cost
	*c = schemas.Cost{Input: c.Input * factor, Output: c.Output * factor, CacheRead: c.CacheRead * factor,
		CacheWrite: c.CacheWrite * factor}
	c.Total = c.Input + c.Output + c.CacheRead + c.CacheWrite
	s.reply.Usage = s.reply.Usage.Clamped()
}

// Finish says why the reply is complete: stop, length or toolUse. It may be called again until play returns.
func (s *Stream) Finish(reason schemas.StopReason) { s.reply.StopReason = reason }

// Finished returns what [Stream.Finish] said, or nothing.
func (s *Stream) Finished() schemas.StopReason { return s.reply.StopReason }

// send gives the reader an event, unless it has left. The vendor is not to blame for the time that takes.
func (s *Stream) send(e schemas.StreamEvent) {
	if s.gone {
		return
	}
	s.pause()
	begun := time.Time{}
	if !s.still.IsZero() {
		begun = time.Now()
	}
	s.telling = true
	more := s.yield(e, nil)
	s.telling = false
	if !begun.IsZero() {
		s.still = s.still.Add(time.Since(begun))
	}
	if s.gone = !more; s.gone {
		s.cancel(nil)
		return
	}
	s.resume()
}

func (s *Stream) pause() {
	if s.idle != nil {
		s.idle.Stop()
	}
}

func (s *Stream) resume() {
	wait := s.limit
	if s.limit > 0 && !s.still.IsZero() && !s.grown {
		wait = max(0, min(wait, providers.IdlePatience*s.limit-time.Since(s.still)))
	}
	switch {
	case s.limit < 0:
	case s.idle == nil:
		s.idle = time.AfterFunc(wait, func() { s.cancel(errIdle) })
	default:
		s.idle.Reset(wait)
	}
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
	s.reply.StopReason, s.reply.ErrorMessage = reason, s.shortened(text)
	s.reply.Content = s.content()
	s.send(schemas.StreamEvent{Type: schemas.StreamError, Reason: reason, FailureCode: code, Message: &s.reply})
	s.pause()
}
