package transport

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// secretHeaders are the headers whose values are credentials.
var secretHeaders = []string{
	"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "x-amz-security-token",
	"cf-aig-authorization", "cookie",
}

// IsSecret reports whether the values of a header are credentials.
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
