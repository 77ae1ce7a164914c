package bedrockconversestream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// machine makes a server with this handler the only source of credentials.
func machine(t *testing.T, serve http.HandlerFunc) *settings {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		serve(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	none := t.TempDir() + "/none"
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none, "AWS_PROFILE": "", "AWS_ACCESS_KEY_ID": "",
		"AWS_REGION": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": s.URL, "AWS_EC2_METADATA_SERVICE_ENDPOINT": s.URL,
		"AWS_EC2_METADATA_DISABLED": "",
	} {
		t.Setenv(name, value)
	}
	return &settings{Request: &providers.Request{Model: &providers.Model{ID: "m"},
		Getenv: func(string) string { return "" }}}
}

// TestFailuresOfTheCredentials checks which failures to get credentials are retried.
func TestFailuresOfTheCredentials(t *testing.T) {
	var all sync.WaitGroup // the SDK waits between its attempts
	for name, tc := range map[string]struct {
		serve http.HandlerFunc
		want  schemas.FailureCode
	}{
		"silence": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, schemas.FailureTimeout},
		"an internal error": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
		}, schemas.FailureServerError},
		"a refusal": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(403)
			_, _ = io.WriteString(w, `{"code":"AccessDenied","message":"no"}`)
		}, schemas.FailureAuth},
		"a connection that ends": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			schemas.FailureConnection},
	} {
		sh := newShared()
		sh.attempt = 50 * time.Millisecond
		a, err := sh.account(t.Context(), machine(t, tc.serve))
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, err := a.credentials.Retrieve(ctx)
			if code := schemas.FailureCodeOf(err); err == nil || ctx.Err() != nil || code != tc.want {
				t.Errorf("%s: %s: %v, want %s", name, code, err, tc.want)
			}
		})
	}
	all.Wait()
}

// TestASlowConfigurationHoldsNobodyElse has a request whose configuration asks the metadata service, and another one
// that is aborted while it waits for the same.
func TestASlowConfigurationHoldsNobodyElse(t *testing.T) {
	arrived := make(chan struct{}, 100)
	s := machine(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	t.Setenv("AWS_DEFAULTS_MODE", "auto")
	sh := newShared()
	one, abort := context.WithCancel(t.Context())
	first := make(chan struct{})
	go func() {
		defer close(first)
		_, _ = sh.account(one, s)
	}()
	<-arrived
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := sh.account(ctx, s)
	select {
	case <-first:
		t.Error("the second has waited for the first")
	default:
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the second gets %v", err)
	}
	abort()
	<-first
}
