package googlevertex_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/googlevertex"
	"github.com/loopbus/loopbus/providers/internal/vendortest"
	"github.com/loopbus/loopbus/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const reply = `data: {"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}` + "\n\n"

// request returns a request with the machine's credentials. asked is called before they are used.
func request(t *testing.T, asked func()) *providers.Request {
	vendor := vendortest.Serve(t, "text/event-stream", []byte(reply))
	return &providers.Request{
		Model:    &providers.Model{ID: "m", API: googlevertex.API, Provider: "test", BaseURL: vendor.URL, MaxTokens: 100},
		Messages: schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "Go."}}}},
		HTTP:     vendortest.Client(t),
		Getenv: func(name string) string {
			if name == "GOOGLE_CLOUD_LOCATION" {
				asked()
			}
			return map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l"}[name]
		},
	}
}

func issueToken(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"access_token":"a-token","token_type":"Bearer","expires_in":3600}`)
}

// TestASlowTokenHoldsNobodyElse has a session request an access token, and a second one that is aborted while it would
// wait for the same. A third one gets its token and its reply, though the first is aborted before the token comes.
func TestASlowTokenHoldsNobodyElse(t *testing.T) {
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", vendortest.ServiceAccount(t,
		func(w http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			select {
			case <-release:
				issueToken(w)
			case <-r.Context().Done():
			}
		}))
	stream := googlevertex.New()
	start := func(ctx context.Context, asked func()) <-chan *schemas.AssistantMessage {
		done := make(chan *schemas.AssistantMessage, 1)
		go func() { done <- vendortest.Final(t, ctx, stream, request(t, asked)) }()
		return done
	}
	ends := func(what string, done <-chan *schemas.AssistantMessage, want schemas.StopReason) {
		t.Helper()
		select {
		case m := <-done:
			if m.StopReason != want {
				t.Errorf("%s ends with %s %q, want %s", what, m.StopReason, m.ErrorMessage, want)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%s waits for the token of another session", what)
		}
	}
	one, abortOne := context.WithCancel(t.Context())
	first := start(one, func() {})
	<-arrived
	two, abortTwo := context.WithCancel(t.Context())
	ends("the second", start(two, abortTwo), schemas.StopAborted)
	asked := make(chan struct{})
	third := start(t.Context(), func() { close(asked) })
	<-asked
	abortOne()
	ends("the first", first, schemas.StopAborted)
	close(release)
	ends("the third", third, schemas.StopStop)
}

// TestFailuresOfTheTokenEndpoint checks which failures to get an access token are retried.
func TestFailuresOfTheTokenEndpoint(t *testing.T) {
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, body, code) }
	}
	for name, tc := range map[string]struct {
		serve http.HandlerFunc
		want  schemas.FailureCode
	}{
		"an internal error": {status(500, `{"error":"internal_failure"}`), schemas.FailureServerError},
		"no capacity":       {status(503, "busy"), schemas.FailureOverloaded},
		"too many requests": {status(429, "slow down"), schemas.FailureRateLimited},
		"a gateway's wait":  {status(504, "waited"), schemas.FailureTimeout},
		"a revoked account": {status(400, `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`),
			schemas.FailureAuth},
		"another account": {status(401, `{"error":"invalid_client"}`), schemas.FailureAuth},
		"no right":        {status(403, `{"error":{"status":"PERMISSION_DENIED"}}`), schemas.FailureAuth},
		"a page":          {status(200, "<html>Sign in to the guest network</html>"), schemas.FailureServerError},
		"a connection that ends": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			schemas.FailureConnection},
		"an answer that breaks off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"access`)
		}, schemas.FailureConnection},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", vendortest.ServiceAccount(t, tc.serve))
			for e, err := range googlevertex.New()(t.Context(), request(t, func() {})) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Terminal() && e.FailureCode != tc.want {
					t.Errorf("%s %q, want %s", e.FailureCode, e.Message.ErrorMessage, tc.want)
				}
			}
		})
	}
}
