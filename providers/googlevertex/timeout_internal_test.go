package googlevertex

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/auth"

	"github.com/loopbus/loopbus/schemas"
)

// silent never answers.
type silent struct{}

func (silent) Token(ctx context.Context) (*auth.Token, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestASilentTokenEndpointTimesOut checks that all who wait for a token fail together, and may be retried.
func TestASilentTokenEndpointTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &defaultCredentials{found: auth.NewCachedTokenProvider(silent{}, nil)}
		began := time.Now()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				_, err := d.token(t.Context())
				if code := schemas.FailureCodeOf(err); code != schemas.FailureTimeout {
					t.Errorf("%s: %v", code, err)
				}
			})
		}
		all.Wait()
		if waited := time.Since(began); waited != tokenTimeout {
			t.Errorf("the last one waited %s", waited)
		}
	})
}
