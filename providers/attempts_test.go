package providers_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/catalogue"
	"github.com/loopbus/loopbus/providers/gateway"
	"github.com/loopbus/loopbus/schemas"
)

// TestOneRequestIsOneOnTheWire counts the requests that a failing vendor receives: one for each request of the loop to
// the gateway, and MaxRetries more from a program that lets the SDK retry.
func TestOneRequestIsOneOnTheWire(t *testing.T) {
	t.Parallel()
	noRetries := []string{"google-generative-ai", "google-vertex", "mistral-conversations"}
	for _, api := range served() {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				w.Header().Set("Retry-After-Ms", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, `{"error":{"message":"overloaded"}}`)
			})
			models := catalogueOf(t, req.Model)
			g := gateway.New(gateway.Options{Catalogue: models, APIs: apis, Keys: anyKey{}, HTTP: req.HTTP})
			for e, err := range g.Stream(t.Context(), schemas.ModelRequest{Model: req.Model.Ref(), Messages: req.Messages}) {
				if err != nil || e.FailureCode != schemas.FailureOverloaded {
					t.Errorf("%s %s %v", e.Type, e.FailureCode, err)
				}
			}
			if n := requests.Swap(0); n != 1 {
				t.Errorf("the gateway made %d requests of one", n)
			}
			want := int32(3)
			if slices.Contains(noRetries, api) {
				want = 1
			}
			req.MaxRetries = 2
			final(t, t.Context(), api, req)
			if n := requests.Load(); n != want {
				t.Errorf("%d requests with two retries, want %d", n, want)
			}
		})
	}
}

// anyKey is a source with a key for every provider.
type anyKey struct{}

func (anyKey) Key(context.Context, string) (string, error) { return "a-key-for-tests", nil }

// catalogueOf returns a catalogue of one model.
func catalogueOf(t *testing.T, m *providers.Model) *catalogue.Catalogue {
	t.Helper()
	c, err := catalogue.Parse([]byte(`{"providers":{"` + m.Provider + `":{"defaults":{"api":"` + m.API + `",` +
		`"baseUrl":"` + m.BaseURL +
		`"},"models":{"` + m.ID + `":{}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
