package transport

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// secretHeaders are the headers in which SDKs send credentials.
var secretHeaders = []string{
	"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "x-amz-security-token",
	"cf-aig-authorization", "cookie",
}

// publicHeaders are the headers of requests to models whose values are no credentials.
var publicHeaders = []string{
	"accept", "accept-language", "anthropic-beta", "anthropic-version", "content-type", "copilot-integration-id",
	"editor-plugin-version", "editor-version", "http-referer", "openai-beta", "openai-intent", "referer", "user-agent",
	"x-title",
}

// IsPublic reports whether the values of a header that somebody configured cannot be credentials.
func IsPublic(header string) bool { return slices.Contains(publicHeaders, strings.ToLower(header)) }

// IsSecret reports whether the values of a header are credentials, of those that an SDK sets.
func IsSecret(header string) bool { return slices.Contains(secretHeaders, strings.ToLower(header)) }

// Secrets are the credentials that were sent with the requests for a reply. SDKs obtain some of them themselves, such
// as the access tokens of a cloud. The methods may be called concurrently.
type Secrets struct {
	mu   sync.Mutex
	sent []string
}

type secretsKey struct{}

// WithSecrets returns a context whose requests add what they send to the returned Secrets.
func WithSecrets(ctx context.Context) (context.Context, *Secrets) {
	s := new(Secrets)
	return context.WithValue(ctx, secretsKey{}, s), s
}

// Sent returns the credentials sent so far, each as it was sent, and without its scheme.
func (s *Secrets) Sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// collect adds the credentials of a request to the Secrets of its context, if there are any.
func collect(r *http.Request) {
	s, _ := r.Context().Value(secretsKey{}).(*Secrets)
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, values := range r.Header {
		if !IsSecret(name) {
			continue
		}
		for _, value := range values {
			if _, token, _ := strings.Cut(value, " "); !slices.Contains(s.sent, value) {
				s.sent = append(s.sent, value, token)
			}
		}
	}
}
