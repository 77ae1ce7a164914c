// Package gateway asks the models of a catalogue: it finds the model that a session names, its key and a free place at
// its provider, and hands the request to the package of its API.
package gateway

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/catalogue"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/schemas"
)

// keylessKey is sent where a provider needs no key: its API has a place for one.
const keylessKey = "none"

// Keys finds the key of a provider before every request. An empty key means that there is none. It may be called
// concurrently.
type Keys interface {
	Key(ctx context.Context, provider string) (string, error)
}

// Limiter gives out places at a provider. Acquire waits for one, fairly over the sessions, until ctx ends; the request
// that has it calls done when it is over. Throttled tells of a provider that asked for a pause.
type Limiter interface {
	Acquire(ctx context.Context, provider, session string) (done func(), err error)
	Throttled(provider string, pause time.Duration)
}

// Options configures a [Gateway]. Catalogue and APIs are needed.
type Options struct {
	Catalogue *catalogue.Catalogue
	APIs      map[string]providers.StreamFunc // by the API's id
	Keys      Keys                            // nil: there are no keys
	Limiter   Limiter                         // nil: no limits
	// Prepare sets what every request has beyond the session's own settings, such as temperature and headers; nil
	// changes nothing.
	Prepare func(r *providers.Request)
	HTTP    *http.Client             // nil is the default transport
	Getenv  func(name string) string // for the APIs that find their way in the environment; nil is an empty one
}

// Gateway is the models of a catalogue as one model of the loop. It may be used concurrently.
type Gateway struct{ o Options }

// New returns a gateway.
func New(o Options) *Gateway { return &Gateway{o} }

// Check says whether the model is there and its API spoken here. A key may still be missing when it is asked.
func (g *Gateway) Check(ref schemas.ModelRef) error {
	m, err := g.o.Catalogue.Find(ref)
	if err == nil && g.o.APIs[m.API] == nil {
		err = fmt.Errorf("model %s: no package speaks %s", m.Ref(), m.API)
	}
	if err != nil {
		return &schemas.FailureError{Code: schemas.FailureInvalidRequest, Err: err}
	}
	return nil
}

// Retryable says whether asking again may help after a reply that has no [schemas.FailureCode], by its text and the
// model's context window. The replies of [Gateway.Stream] all have one.
func (g *Gateway) Retryable(reply *schemas.AssistantMessage) bool {
	var window int64
	if m, err := g.o.Catalogue.Find(schemas.ModelRef{Provider: reply.Provider, ID: reply.Model}); err == nil {
		window = m.ContextWindow
	}
	return providers.IsRetryable(reply, window)
}

// Stream asks the model that the request names. What goes wrong is a failed reply, also a model that is not there: the
// iterator yields no error, since a run ends with a reply that says why. It waits for a place at the provider first;
// the reply of a request that was cancelled meanwhile is aborted.
func (g *Gateway) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		r, done, err := g.prepare(ctx, req)
		if err != nil {
			yield(failure(ctx, req.Model, err), nil)
			return
		}
		defer done()
		for e, err := range g.o.APIs[r.Model.API](ctx, r) {
			if !yield(coded(e), err) || err != nil || e.Terminal() {
				return
			}
		}
	}
}

// prepare makes the request of an API, with a key and a place at the provider.
func (g *Gateway) prepare(ctx context.Context, req schemas.ModelRequest) (r *providers.Request, done func(),
	err error) {
	if err := g.Check(req.Model); err != nil {
		return nil, nil, err
	}
	m, err := g.o.Catalogue.Find(req.Model)
	if err != nil {
		return nil, nil, &schemas.FailureError{Code: schemas.FailureInvalidRequest, Err: err}
	}
	r = &providers.Request{
		Model: m, SystemPrompt: req.SystemPrompt, Messages: req.Messages, Tools: req.Tools,
		Reasoning: req.ThinkingLevel, MaxTokens: req.MaxTokens, SessionID: req.SessionID, HTTP: g.o.HTTP, Getenv: g.o.Getenv,
		OnPayload: req.OnPayload,
	}
	if g.o.Prepare != nil {
		g.o.Prepare(r)
	}
	done = func() {}
	if g.o.Limiter != nil {
		r.OnResponse = g.throttled(m.Provider, r.OnResponse)
		if done, err = g.o.Limiter.Acquire(ctx, m.Provider, req.SessionID); err != nil {
			return nil, nil, err
		}
	}
	// Last: what waited for its place may have waited longer than a key lives.
	if r.APIKey, err = g.key(ctx, m.Provider, req.APIKey); err != nil {
		done()
		return nil, nil, err
	}
	return r, done, nil
}

// key is the request's own, else the provider's.
func (g *Gateway) key(ctx context.Context, provider, own string) (string, error) {
	if own != "" {
		return own, nil
	}
	var key string
	if g.o.Keys != nil {
		var err error
		if key, err = g.o.Keys.Key(ctx, provider); err != nil {
			if schemas.FailureCodeOf(err) == schemas.FailureUnknown {
				err = &schemas.FailureError{Code: schemas.FailureAuth, Err: err}
			}
			return "", err
		}
	}
	if key == "" && g.o.Catalogue.Keyless(provider) {
		key = keylessKey
	}
	return key, nil
}

// throttled tells the limiter of answers that ask for a pause.
func (g *Gateway) throttled(provider string, next func(int, http.Header)) func(int, http.Header) {
	return func(status int, header http.Header) {
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			pause, _ := transport.RetryAfter(header, time.Now())
			g.o.Limiter.Throttled(provider, pause)
		}
		if next != nil {
			next(status, header)
		}
	}
}

// failure is the reply that was never asked for.
func failure(ctx context.Context, ref schemas.ModelRef, err error) schemas.StreamEvent {
	m := &schemas.AssistantMessage{
		API: ref.API, Provider: ref.Provider, Model: ref.ID, StopReason: schemas.StopError, ErrorMessage: err.Error(),
		Timestamp: time.Now().UnixMilli(),
	}
	e := schemas.StreamEvent{
		Type: schemas.StreamError, Reason: m.StopReason, FailureCode: schemas.FailureCodeOf(err), Message: m,
	}
	if ctx.Err() != nil {
		m.StopReason, m.ErrorMessage = schemas.StopAborted, providers.TextAborted
		e.Reason, e.FailureCode = m.StopReason, ""
	}
	return e
}

// coded gives an error event its code, where an API that is not one of this module has left it out.
func coded(e schemas.StreamEvent) schemas.StreamEvent {
	if m := e.Message; e.Type == schemas.StreamError && e.FailureCode == "" && m != nil &&
		m.StopReason == schemas.StopError {
		e.FailureCode = providers.FailureOfText(m.ErrorMessage)
	}
	return e
}
