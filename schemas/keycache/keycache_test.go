package keycache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/schemas/keycache"
)

// service answers each request after a while, by its number.
type service struct {
	after    time.Duration
	validFor time.Duration
	err      error

	mu       sync.Mutex
	requests int
}

func (s *service) request(ctx context.Context) (key string, until time.Time, err error) {
	s.mu.Lock()
	s.requests++
	key = fmt.Sprint("key", s.requests)
	s.mu.Unlock()
	select {
	case <-time.After(s.after):
	case <-ctx.Done():
		return "", until, ctx.Err()
	}
	if s.err != nil {
		return "", until, s.err
	}
	if s.validFor > 0 {
		until = time.Now().Add(s.validFor)
	}
	return key, until, nil
}

// callAll has many callers at once, and returns how long the slowest has waited.
func callAll(t *testing.T, c *keycache.Cache, s *service, callers int) (slowest time.Duration) {
	t.Helper()
	began := time.Now()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			if _, err := c.Key(t.Context(), "vendor", s.request); !errors.Is(err, s.err) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// Many callers of a key without an expiry wait for two requests at most.
func TestCallersShareRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c keycache.Cache
		s := &service{after: time.Second}
		if took := callAll(t, &c, s, 1000); took > 2*time.Second || s.requests > 2 {
			t.Errorf("%d requests, the slowest caller has waited %s", s.requests, took)
		}
		callAll(t, &c, s, 1)
		if s.requests != 3 {
			t.Errorf("a key without an expiry was reused: %d requests", s.requests)
		}
	})
}

func TestAKeyIsKeptUntilItExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c keycache.Cache
		s := &service{after: time.Second, validFor: time.Minute}
		callAll(t, &c, s, 100)
		callAll(t, &c, s, 100)
		if s.requests != 1 {
			t.Errorf("%d requests", s.requests)
		}
		time.Sleep(time.Minute)
		callAll(t, &c, s, 1)
		if s.requests != 2 {
			t.Errorf("%d requests after the key has expired", s.requests)
		}
	})
}

// A failure ends the wait of all who wait for the next request, too.
func TestAFailureIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c keycache.Cache
		s := &service{after: time.Second, err: errors.New("silent")}
		if took := callAll(t, &c, s, 100); took > time.Second || s.requests != 1 {
			t.Errorf("%d requests, the slowest caller has waited %s", s.requests, took)
		}
	})
}

// A request goes on for the others when one caller leaves, and ends when the last leaves. Who waits for the next one
// does not get the error of that.
func TestCallersMayLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c keycache.Cache
		s := &service{after: time.Second}
		begun := time.Now()
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := c.Key(ctx, "vendor", s.request); !errors.Is(err, context.Canceled) {
				t.Errorf("who left got %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if key, err := c.Key(t.Context(), "vendor", s.request); key != "key2" || err != nil {
				t.Errorf("who stayed got %q, %v", key, err)
			}
		})
		synctest.Wait()
		leave()
		all.Wait()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("the second request ended after %s", took)
		}
	})
}
