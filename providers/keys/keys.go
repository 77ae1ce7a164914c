// Package keys finds the API key of a provider before every request, because keys change and some live for only
// minutes. Errors contain no part of a key.
package keys

import (
	"context"
	"fmt"

	"github.com/loopbus/loopbus/providers"
)

// Source finds keys. Key returns "" if the source has no key for the provider. Implementations must be safe for
// concurrent use.
type Source interface {
	Key(ctx context.Context, provider string) (string, error)
}

// Chain queries its sources in order and returns the first key. An error of a source ends the search: a request with
// another key than intended would hide the mistake.
type Chain []Source

// Key is [Source.Key].
func (c Chain) Key(ctx context.Context, provider string) (string, error) {
	for _, source := range c {
		key, err := source.Key(ctx, provider)
		if err != nil {
			return "", fmt.Errorf("key of provider %s: %w", provider, err)
		}
		if key != "" {
			return key, nil
		}
	}
	return "", nil
}

// Fixed holds keys by provider, for keys given as flags.
type Fixed map[string]string

// Key is [Source.Key].
func (f Fixed) Key(_ context.Context, provider string) (string, error) { return f[provider], nil }

// Env reads keys from environment variables; see [providers.KeyVariables].
type Env func(name string) string

// Key is [Source.Key].
func (e Env) Key(_ context.Context, provider string) (string, error) {
	return providers.KeyFromEnv(provider, e), nil
}
