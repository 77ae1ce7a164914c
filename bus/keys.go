package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/keycache"
)

// DefaultKeyTimeout is the default of [KeyOptions.Timeout].
const DefaultKeyTimeout = 10 * time.Second

// KeyOptions configures [NewKeys]. Parse is required.
type KeyOptions struct {
	// Parse returns the key in an answer, empty if there is none, and until when the key may be reused; the zero time
	// means that it must not be reused. Its error must not quote the answer.
	Parse   func(answer []byte) (key string, until time.Time, err error)
	Timeout time.Duration // of one request; 0 means DefaultKeyTimeout
}

// Keys requests the keys of providers from a key service: it sends a request without payload to agent.key.<provider>.
// It caches a key until the key expires, and has one request per provider in flight at most, which all share who need
// the key ([keycache.Cache]). No error contains a key, and nothing is logged. Its methods may be called concurrently.
type Keys struct {
	conn  *Conn
	o     KeyOptions
	cache keycache.Cache
}

// NewKeys returns a client of the key service on c. The caller keeps ownership of c, which must outlive the Keys.
func NewKeys(c *Conn, o KeyOptions) *Keys {
	if o.Timeout == 0 {
		o.Timeout = DefaultKeyTimeout
	}
	return &Keys{conn: c, o: o}
}

// Key returns the provider's key, empty if the service has none. If the service does not listen or does not answer, the
// error has a [schemas.FailureCode] that allows a retry.
func (k *Keys) Key(ctx context.Context, provider string) (string, error) {
	if err := schemas.CheckToken("provider", provider); err != nil {
		return "", err
	}
	return k.cache.Key(ctx, provider, func(ctx context.Context) (key string, until time.Time, err error) {
		ctx, cancel := context.WithTimeoutCause(ctx, k.o.Timeout, schemas.NewFailure(schemas.FailureTimeout, fmt.Sprintf(
			"key service timed out: no answer at %s within %s", k.conn.subjects.Key(provider), k.o.Timeout)))
		defer cancel()
		answer, err := k.request(ctx, provider)
		if err != nil {
			return "", until, err
		}
		if key, until, err = k.o.Parse(answer); err != nil {
			return "", until, fmt.Errorf("key service: %w", err)
		}
		return key, until, nil
	})
}

func (k *Keys) request(ctx context.Context, provider string) ([]byte, error) {
	subject := k.conn.subjects.Key(provider)
	m, err := natsio.Request(ctx, k.conn.nc, subject, nil)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, schemas.NewFailure(schemas.FailureConnection, "key service unavailable: nobody listens to "+subject)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, &schemas.FailureError{
			Code: schemas.FailureConnection, Err: fmt.Errorf("key service: request at %s: %w", subject, err),
		}
	}
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" { // code and description may contain a secret
		return nil, schemas.NewFailure(schemas.FailureAuth,
			fmt.Sprintf("key service refused the key at %s with code %q", subject, numeric(code)))
	}
	return m.Data, nil
}

// numeric returns a code that is a number, and nothing of another.
func numeric(code string) string {
	if _, err := strconv.ParseUint(code, 10, 16); err != nil {
		return ""
	}
	return code
}
