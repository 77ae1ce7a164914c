package providers_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/loopbus/loopbus/providers/gateway"
	"github.com/loopbus/loopbus/schemas"
)

// TestThePayloadIsWhatIsSent checks that OnPayload gets the body for each vendor, without a key, and that the body it
// returns is sent. If it returns an error, nothing is sent.
func TestThePayloadIsWhatIsSent(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var got []string
			req := serveFault(t, api, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				got = append(got, string(body))
				mu.Unlock()
				w.WriteHeader(http.StatusBadRequest)
			})
			g := gateway.New(gateway.Options{Catalogue: catalogueOf(t, req.Model), APIs: apis, Keys: anyKey{}, HTTP: req.HTTP})
			shown := ""
			ask := func(answer string, fail error) {
				r := schemas.ModelRequest{Model: req.Model.Ref(), Messages: req.Messages}
				r.OnPayload = func(_ context.Context, payload json.RawMessage) (json.RawMessage, error) {
					shown = string(payload)
					return json.RawMessage(answer), fail
				}
				for e := range g.Stream(t.Context(), r) {
					if e.Terminal() && e.Message.StopReason != schemas.StopError {
						t.Errorf("the reply is %+v", e.Message)
					}
				}
			}
			ask(`{"instead":true}`, nil)
			if len(got) != 1 || got[0] != `{"instead":true}` {
				t.Errorf("sent %q", got)
			}
			if !json.Valid([]byte(shown)) || !strings.Contains(shown, "Go.") || strings.Contains(shown, "a-key-for-tests") {
				t.Errorf("shown %q", shown)
			}
			ask("", errors.New("never"))
			if len(got) != 1 {
				t.Errorf("sent %q although it was given up", got)
			}
		})
	}
}
