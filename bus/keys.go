package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// DefaultKeyTimeout is how long a key service has to answer unless said otherwise.
const DefaultKeyTimeout = 10 * time.Second

// KeyOptions configures [NewKeys]. Parse is needed.
type KeyOptions struct {
	// Parse reads an answer: the key, empty if there is none, and until when it may be used again; the zero time is not at
	// all. Its error must not say what is in the answer.
	Parse   func(answer []byte) (key string, until time.Time, err error)
	Timeout time.Duration // of one request; 0 is DefaultKeyTimeout
}

// Keys asks a key service for the keys of providers: a request without payload to agent.key.<provider>. A key is used
// again until it expires, and asked for once at a time. No error says what a key is, and nothing is logged. Keys may be
// used concurrently.
type Keys struct {
	conn *Conn
	o    KeyOptions

	mu     sync.Mutex
	cached map[string]*cachedKey // by provider
}

// cachedKey is a provider's key. The goroutine that has the turn may read and replace it.
type cachedKey struct {
	turn  chan struct{}
	key   string
	until time.Time
}

// NewKeys returns a client of the key service on c, which stays the caller's.
func NewKeys(c *Conn, o KeyOptions) *Keys {
	if o.Timeout == 0 {
		o.Timeout = DefaultKeyTimeout
	}
	return &Keys{conn: c, o: o, cached: map[string]*cachedKey{}}
}

// Key returns the provider's key; an empty one if the service has none. A service that is not there or does not answer
// is an error whose [schemas.FailureCode] says that asking again may help.
func (k *Keys) Key(ctx context.Context, provider string) (string, error) {
	if err := schemas.CheckToken("provider", provider); err != nil {
		return "", err
	}
	h := k.of(provider)
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if h.key != "" && time.Now().Before(h.until) {
		return h.key, nil
	}
	answer, err := k.ask(ctx, provider)
	if err != nil {
		return "", err
	}
	h.key, h.until, err = k.o.Parse(answer)
	if err != nil {
		return "", fmt.Errorf("key service: %w", err)
	}
	return h.key, nil
}

func (k *Keys) of(provider string) *cachedKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.cached[provider]
	if h == nil {
		h = &cachedKey{turn: make(chan struct{}, 1)}
		k.cached[provider] = h
	}
	return h
}

func (k *Keys) ask(ctx context.Context, provider string) ([]byte, error) {
	subject := k.conn.subjects.Key(provider)
	limited, cancel := context.WithTimeout(ctx, k.o.Timeout)
	defer cancel()
	m, err := natsio.Request(limited, k.conn.nc, subject, nil)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, schemas.NewFailure(schemas.FailureConnection, "key service unavailable: nobody listens to "+subject)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil:
		return nil, schemas.NewFailure(schemas.FailureTimeout,
			fmt.Sprintf("key service timed out: no answer at %s within %s", subject, k.o.Timeout))
	case err != nil:
		return nil, &schemas.FailureError{
			Code: schemas.FailureConnection, Err: fmt.Errorf("key service: request at %s: %w", subject, err),
		}
	}
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" { // its description may say what nobody should read
		return nil, schemas.NewFailure(schemas.FailureAuth,
			fmt.Sprintf("key service refused the key at %s with code %.16q", subject, code))
	}
	return m.Data, nil
}
