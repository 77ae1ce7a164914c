package googlevertex

import (
	"context"
	"fmt"
	"sync"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"

	"github.com/loopbus/loopbus/schemas"
)

const scope = "https://www.googleapis.com/auth/cloud-platform"

// defaultCredentials holds the application default credentials. They are detected when they are first needed.
type defaultCredentials struct {
	mu    sync.Mutex
	found *auth.Credentials
}

// token returns an access token, which is cached until it expires.
func (d *defaultCredentials) token(ctx context.Context) (string, error) {
	d.mu.Lock()
	if d.found == nil {
		found, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{scope}})
		if err != nil {
			d.mu.Unlock()
			return "", &schemas.FailureError{
				Code: schemas.FailureAuth, Err: fmt.Errorf("application default credentials: %w", err),
			}
		}
		d.found = found
	}
	found := d.found
	d.mu.Unlock()
	t, err := found.Token(ctx)
	if err != nil {
		return "", fmt.Errorf("access token of Google Cloud: %w", err)
	}
	return t.Value, nil
}
