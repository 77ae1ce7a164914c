package gateway_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/catalogue"
	"github.com/loopbus/loopbus/providers/gateway"
	"github.com/loopbus/loopbus/providers/keys"
	"github.com/loopbus/loopbus/schemas"
)

const models = `{"providers": {
	"shop": {"defaults": {"api": "openai-completions", "baseUrl": "http://shop.test", "contextWindow": 100},
		"models": {"m": {}}},
	"here": {"open": true, "keyless": true, "defaults": {"api": "openai-completions", "baseUrl": "http://127.0.0.1:1"}},
	"far": {"defaults": {"api": "google-vertex"}, "models": {"v": {}}}
}}`

// api is an API that records its request.
func api(asked *[]*providers.Request, status int, header http.Header) providers.StreamFunc {
	return func(_ context.Context, r *providers.Request) iter.Seq2[schemas.StreamEvent, error] {
		return func(yield func(schemas.StreamEvent, error) bool) {
			*asked = append(*asked, r)
			if r.OnResponse != nil {
				r.OnResponse(status, header)
			}
			yield(schemas.StreamEvent{Type: schemas.StreamDone,
				Message: &schemas.AssistantMessage{StopReason: schemas.StopStop}}, nil)
		}
	}
}

// slots is a limiter that records its calls.
type slots struct {
	log []string
	err error
}

func (p *slots) Acquire(_ context.Context, provider, session string) (func(), error) {
	p.log = append(p.log, "take "+provider+" "+session)
	return func() { p.log = append(p.log, "give back") }, p.err
}

func (p *slots) Throttled(provider string, pause time.Duration) {
	p.log = append(p.log, "pause "+provider+" "+pause.String())
}

func newGateway(t *testing.T, o gateway.Options, fn providers.StreamFunc) *gateway.Gateway {
	t.Helper()
	c, err := catalogue.Parse([]byte(models))
	if err != nil {
		t.Fatal(err)
	}
	o.Catalogue, o.APIs = c, map[string]providers.StreamFunc{"openai-completions": fn}
	return gateway.New(o)
}

// ask returns the last event's message.
func ask(t *testing.T, g *gateway.Gateway, ctx context.Context, ref schemas.ModelRef) *schemas.AssistantMessage {
	t.Helper()
	var last *schemas.AssistantMessage
	for e, err := range g.Stream(ctx, schemas.ModelRequest{Model: ref, SessionID: "s1",
		ThinkingLevel: schemas.ThinkingHigh}) {
		if err != nil {
			t.Fatal(err)
		}
		last = e.Message
	}
	if last == nil {
		t.Fatal("no message")
	}
	return last
}

func TestARequestHasEverything(t *testing.T) {
	var asked []*providers.Request
	p := &slots{}
	g := newGateway(t, gateway.Options{
		Keys: keys.Fixed{"shop": "sk-1"}, Limiter: p, Prepare: func(r *providers.Request) { r.MaxTokens = 7 },
	}, api(&asked, http.StatusTooManyRequests, http.Header{"Retry-After": {"3"}}))
	ask(t, g, t.Context(), schemas.ModelRef{Provider: "shop", ID: "m"})
	r := asked[0]
	if r.APIKey != "sk-1" || r.Model.BaseURL != "http://shop.test" || r.SessionID != "s1" ||
		r.Reasoning != schemas.ThinkingHigh || r.MaxTokens != 7 {
		t.Errorf("request %+v", r)
	}
	if d := cmp.Diff([]string{"take shop s1", "pause shop 3s", "give back"}, p.log); d != "" {
		t.Errorf("limiter (-want +got):\n%s", d)
	}
	ask(t, g, t.Context(), schemas.ModelRef{Provider: "here", ID: "any"})
	if key := asked[1].APIKey; key == "" || key == "sk-1" {
		t.Errorf("a provider without keys got %q", key)
	}
}

func TestErrorsAreFailedReplies(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	full := &slots{err: errors.New("too many wait")}
	for name, c := range map[string]struct {
		o    gateway.Options
		ctx  context.Context
		ref  schemas.ModelRef
		want string
	}{
		"no such model": {ref: schemas.ModelRef{ID: "nothing"}, want: `no model "nothing"`},
		"no such API":   {ref: schemas.ModelRef{Provider: "far", ID: "v"}, want: "no package speaks google-vertex"},
		"no place":      {o: gateway.Options{Limiter: full}, ref: schemas.ModelRef{ID: "m"}, want: "too many wait"},
		"cancelled": {o: gateway.Options{Limiter: full}, ctx: ended, ref: schemas.ModelRef{ID: "m"},
			want: providers.TextAborted},
	} {
		t.Run(name, func(t *testing.T) {
			if c.ctx == nil {
				c.ctx = t.Context()
			}
			var asked []*providers.Request
			m := ask(t, newGateway(t, c.o, api(&asked, 200, nil)), c.ctx, c.ref)
			aborted := m.StopReason == schemas.StopAborted
			if !m.Failed() || aborted != (name == "cancelled") || !strings.Contains(m.ErrorMessage, c.want) || len(asked) != 0 {
				t.Errorf("%d requests, %s %q; want %q", len(asked), m.StopReason, m.ErrorMessage, c.want)
			}
		})
	}
}

func TestRetryableKnowsTheWindow(t *testing.T) {
	g := newGateway(t, gateway.Options{}, nil)
	for text, want := range map[string]bool{"529 overloaded": true, "insufficient_quota": false,
		"prompt is too long: 500 rows": false} {
		m := &schemas.AssistantMessage{Provider: "shop", Model: "m", StopReason: schemas.StopError, ErrorMessage: text}
		if got := g.Retryable(m); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// noKey is a source of keys that does not respond.
type noKey struct{}

func (noKey) Key(context.Context, string) (string, error) { return "", errors.New("no key") }

func TestRequestWithoutAKeyReleasesItsSlot(t *testing.T) {
	var asked []*providers.Request
	p := &slots{}
	m := ask(t, newGateway(t, gateway.Options{Keys: noKey{}, Limiter: p}, api(&asked, 200, nil)), t.Context(),
		schemas.ModelRef{ID: "m"})
	if !m.Failed() || m.ErrorMessage != "no key" || len(asked) != 0 {
		t.Errorf("%d requests, %s %q", len(asked), m.StopReason, m.ErrorMessage)
	}
	if d := cmp.Diff([]string{"take shop s1", "give back"}, p.log); d != "" {
		t.Errorf("limiter (-want +got):\n%s", d)
	}
}

// TestEveryFailureHasItsCode checks that every failed reply has a failure code, also if no request was sent or the API
// gave no code.
func TestEveryFailureHasItsCode(t *testing.T) {
	silent := func(context.Context, *providers.Request) iter.Seq2[schemas.StreamEvent, error] {
		return func(yield func(schemas.StreamEvent, error) bool) {
			m := &schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: "529 overloaded"}
			yield(schemas.StreamEvent{Type: schemas.StreamError, Reason: schemas.StopError, Message: m}, nil)
		}
	}
	slow := schemas.NewFailure(schemas.FailureTimeout, "the key service sleeps")
	full := schemas.NewFailure(schemas.FailureRateLimited, "many wait")
	for name, c := range map[string]struct {
		o     gateway.Options
		model string
		want  schemas.FailureCode
	}{
		"by its words":               {gateway.Options{}, "m", schemas.FailureOverloaded},
		"of no model":                {gateway.Options{}, "nothing", schemas.FailureInvalidRequest},
		"of an API nobody speaks":    {gateway.Options{}, "v", schemas.FailureInvalidRequest},
		"of a key that is not there": {gateway.Options{Keys: noKey{}}, "m", schemas.FailureAuth},
		"of a key that comes late":   {gateway.Options{Keys: failingKeys{slow}}, "m", schemas.FailureTimeout},
		"of a place":                 {gateway.Options{Limiter: &slots{err: full}}, "m", schemas.FailureRateLimited},
	} {
		t.Run(name, func(t *testing.T) {
			var code schemas.FailureCode
			req := schemas.ModelRequest{Model: schemas.ModelRef{ID: c.model}}
			for e := range newGateway(t, c.o, silent).Stream(t.Context(), req) {
				code = e.FailureCode
			}
			if code != c.want {
				t.Errorf("%q, want %q", code, c.want)
			}
		})
	}
}

// failingKeys is a source of keys that fails.
type failingKeys struct{ err error }

func (k failingKeys) Key(context.Context, string) (string, error) { return "", k.err }
