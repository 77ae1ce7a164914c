package googlevertex

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"

	"github.com/loopbus/loopbus/providers/internal/failure"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/keycache"
)

const scope = "https://www.googleapis.com/auth/cloud-platform"

// tokenTimeout limits the time to get an access token, for all who wait for it.
const tokenTimeout = 30 * time.Second

// defaultCredentials holds the application default credentials. They are detected when they are first needed.
//
// The library holds a lock, which no context ends, during its request for a token. So the requests are those of a
// [keycache.Cache]: one at a time, and each caller waits with its own context. Tokens are kept by the library, which
// renews them before they expire.
type defaultCredentials struct {
	requests keycache.Cache
	found    auth.TokenProvider // nil before they are detected; only the request in flight uses it
}

// token returns an access token, which is cached until it expires.
func (d *defaultCredentials) token(ctx context.Context) (string, error) {
	return d.requests.Key(ctx, API, d.request)
}

func (d *defaultCredentials) request(ctx context.Context) (token string, until time.Time, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, tokenTimeout, schemas.NewFailure(schemas.FailureTimeout,
		fmt.Sprintf("access token of Google Cloud timed out: none within %s", tokenTimeout)))
	defer cancel()
	if d.found == nil {
		found, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{scope}})
		if err != nil {
			return "", until, &schemas.FailureError{
				Code: schemas.FailureAuth, Err: fmt.Errorf("application default credentials: %w", err),
			}
		}
		d.found = found
	}
	t, err := d.found.Token(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return "", until, context.Cause(ctx)
	case err != nil:
		return "", until, tokenError(err)
	}
	return t.Value, until, nil
}

// tokenError returns the error of a request for a token.
func tokenError(err error) error {
	const what = "access token of Google Cloud"
	var refused *auth.Error
	if errors.As(err, &refused) && refused.Response != nil {
		return failure.OfCredentials(what, err, refused.Response.StatusCode, failure.Names(refused.Body)...)
	}
	return failure.OfCredentials(what, err, 0)
}
