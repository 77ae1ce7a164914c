// Package gateway calls the models of a catalogue: it finds the model that a session names, its API key and a free
// slot at its provider, and passes the request to the package of its API.
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

// keylessKey is the key for a provider that needs none, because its API requires one.
const keylessKey = "none"

// Keys finds the key of a provider before every request. An empty key means that there is none. Implementations must
// be safe for concurrent use.
type Keys interface {
	Key(ctx context.Context, provider string) (string, error)
}

// Limiter limits requests to a provider. Acquire waits for a slot, fairly between sessions, until ctx ends; the
// caller calls done when its request has ended. Throttled reports that a provider asked for a pause.
type Limiter interface {
	Acquire(ctx context.Context, provider, session string) (done func(), err error)
	Throttled(provider string, pause time.Duration)
}

// Options configures a [Gateway]. Catalogue and APIs are required.
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

// Gateway presents the models of a catalogue as one model of the loop. It is safe for concurrent use.
type Gateway struct{ o Options }

// New returns a gateway.
func New(o Options) *Gateway { return &Gateway{o} }

// Check returns an error if the model does not exist or its API is not supported. It does not check for a key.
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

// Retryable reports whether a retry may help after a reply without a [schemas.FailureCode], by its text and the
// model's context window. All replies of [Gateway.Stream] have a code.
func (g *Gateway) Retryable(reply *schemas.AssistantMessage) bool {
	var window int64
	if m, err := g.o.Catalogue.Find(schemas.ModelRef{Provider: reply.Provider, ID: reply.Model}); err == nil {
		window = m.ContextWindow
	}
	return providers.IsRetryable(reply, window)
}

// Stream calls the model that the request names. A failure, including an unknown model, is a failed reply and not an
// error of the iterator, so that the run ends with a reply that explains it. Stream first waits for a slot at the
// provider; if the request is cancelled in the meantime, the reply is aborted.
func (g *Gateway) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		r, done, err := g.prepare(ctx, req)
		if err != nil {
			yield(failure(ctx, req.Model, err), nil)
			return
		}
		defer done()
		for e, err := range g.o.APIs[r.Model.API](ctx, r) {
			if !yield(withCode(e), err) || err != nil || e.Terminal() {
				return
			}
		}
	}
}

// prepare returns the request for an API, with a key. The caller calls done to release the slot at the provider.
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
		Model: m, SystemPrompt: req.SystemPrompt, Messages: req.Messages, Tools: acceptedTools(req.Tools),
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
	// The key is resolved last, because a key may expire while the request waits for a slot.
	if r.APIKey, err = g.key(ctx, m.Provider, req.APIKey); err != nil {
		done()
		return nil, nil, err
	}
	return r, done, nil
}

// key returns the request's own key, or else the provider's.
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

// throttled returns an OnResponse function that reports throttled responses to the limiter and then calls next.
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

// failure returns the error event of a request that was not sent.
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

// withCode returns the event with a failure code if it is an error without one. APIs outside this module may omit it.
func withCode(e schemas.StreamEvent) schemas.StreamEvent {
	if m := e.Message; e.Type == schemas.StreamError && e.FailureCode == "" && m != nil &&
		m.StopReason == schemas.StopError {
		e.FailureCode = providers.FailureOfText(m.ErrorMessage)
	}
	return e
}
