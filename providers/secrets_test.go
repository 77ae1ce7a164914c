package providers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/vendortest"
)

// echoCredentials answers with an error that quotes the credentials of the request.
func echoCredentials(w http.ResponseWriter, r *http.Request) {
	h := r.Header
	said := fmt.Sprint("refused: ", h["Authorization"], h["X-Amz-Security-Token"], h["X-Goog-Api-Key"])
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(map[string]any{"message": said, "error": map[string]any{"message": said}})
}

// fails checks that a reply fails with an error that does not contain a secret.
func fails(t *testing.T, api string, req *providers.Request, secret string) {
	t.Helper()
	said := finalEvent(t, t.Context(), api, req).Message.ErrorMessage
	if strings.Contains(said, secret) || !strings.Contains(said, "[redacted]") {
		t.Errorf("the error text, which goes to the log, is %.500q", said)
	}
}

// Error texts are stored in logs. They contain no credential, also if the SDK has obtained it and not the request.
func TestCredentialsOfSDKsAreNotInErrors(t *testing.T) {
	variables := func(req *providers.Request, all map[string]string) {
		req.APIKey, req.Getenv = "", func(name string) string { return all[name] }
	}
	t.Run("session token of AWS", func(t *testing.T) {
		req := serveFault(t, "bedrock-converse-stream", echoCredentials)
		variables(req, map[string]string{"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret-access-key",
			"AWS_SESSION_TOKEN": "session-token-0123456789", "AWS_REGION": "us-east-1"})
		fails(t, "bedrock-converse-stream", req, "session-token-0123456789")
	})
	t.Run("access token of Google Cloud", func(t *testing.T) {
		t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", vendortest.ServiceAccount(t,
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"access_token":"ya29.access-token-0123456789","token_type":"Bearer","expires_in":3600}`)
			}))
		req := serveFault(t, "google-vertex", echoCredentials)
		variables(req, map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l"})
		fails(t, "google-vertex", req, "ya29.access-token-0123456789")
	})
}

// JSON may escape a slash.
func TestEscapedKeysAreNotInErrors(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusForbidden)
				fmt.Fprint(w, `{"detail":"bad key abc\/def\/0123456789\/xyz"}`)
			})
			req.APIKey = "abc/def/0123456789/xyz"
			said := finalEvent(t, t.Context(), api, req).Message.ErrorMessage
			if strings.Contains(said, `abc\/def\/0123456789\/xyz`) || strings.Contains(said, req.APIKey) {
				t.Errorf("the error text is %.500q", said)
			}
		})
	}
}

// The password in the URL of a server is in no error, also if the URL cannot be parsed, or the server says what it got.
func TestPasswordsOfURLsAreNotInErrors(t *testing.T) {
	t.Parallel()
	const password = "p%2Fssword-0123456789"
	for _, api := range served() {
		for name, spoil := range map[string]func(string) string{
			"cannot be parsed": func(string) string { return "http://user:" + password + "@nohost.invalid:bad/g" },
			"is told": func(address string) string {
				return strings.Replace(address, "://", "://user:"+password+"@", 1)
			},
		} {
			t.Run(api+"/"+name, func(t *testing.T) {
				t.Parallel()
				req := serveFault(t, api, func(w http.ResponseWriter, r *http.Request) {
					user, got, _ := r.BasicAuth()
					w.WriteHeader(http.StatusForbidden)
					fmt.Fprintf(w, "bad user %s:%s", user, got)
				})
				req.Model.BaseURL = spoil(req.Model.BaseURL)
				said := finalEvent(t, t.Context(), api, req).Message.ErrorMessage
				if strings.Contains(said, "ssword-0123456789") {
					t.Errorf("the error text is %.500q", said)
				}
			})
		}
	}
}
