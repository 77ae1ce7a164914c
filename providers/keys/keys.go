// Package keys finds the API key of a provider, before every request: keys change, and some live for minutes only. No
// error says what a key or a part of one is.
package keys

import (
	"context"
	"fmt"

	"github.com/loopbus/loopbus/providers"
)

// Source finds keys. Key returns an empty key where the source has none for the provider. It may be called
// concurrently.
type Source interface {
	Key(ctx context.Context, provider string) (string, error)
}

// Chain asks its sources in order and takes the first key there is. An error of a source ends the search: a request
// with another key than was meant would hide the mistake.
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

// Fixed are keys by provider, as flags give them.
type Fixed map[string]string

// Key is [Source.Key].
func (f Fixed) Key(_ context.Context, provider string) (string, error) { return f[provider], nil }

// Env looks into the environment, by the variables of [providers.KeyVariables].
type Env func(name string) string

// Key is [Source.Key].
func (e Env) Key(_ context.Context, provider string) (string, error) {
	return providers.KeyFromEnv(provider, e), nil
}
