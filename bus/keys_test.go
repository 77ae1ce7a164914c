package bus_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// keyService subscribes answer to the requests for keys, and returns their number.
func keyService(t *testing.T, c *bus.Conn, answer func(m *nats.Msg)) *atomic.Int32 {
	t.Helper()
	n := new(atomic.Int32)
	if _, err := c.NATS().Subscribe("agent.key.*", func(m *nats.Msg) {
		n.Add(1)
		answer(m)
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
	return n
}

// answerWith answers with the subject's last token and a text.
func answerWith(t *testing.T, text string) func(m *nats.Msg) {
	return func(m *nats.Msg) {
		if err := m.Respond([]byte(m.Subject[strings.LastIndex(m.Subject, ".")+1:] + text)); err != nil {
			t.Error(err)
		}
	}
}

// validFor returns options whose Parse takes the whole answer as a key that is valid for d.
func validFor(d time.Duration) bus.KeyOptions {
	return bus.KeyOptions{Parse: func(answer []byte) (string, time.Time, error) {
		return string(answer), time.Now().Add(d), nil
	}}
}

func wantKey(t *testing.T, k *bus.Keys, provider, want string) {
	t.Helper()
	if got, err := k.Key(bustest.Deadline(t), provider); err != nil || got != want {
		t.Errorf("key of %s: %q, %v; want %q", provider, got, err, want)
	}
}

func TestKeyIsCachedUntilItExpires(t *testing.T) {
	t.Parallel()
	c := bustest.Connect(t, bustest.Server(t))
	n := keyService(t, c, answerWith(t, "-key"))
	long := bus.NewKeys(c, validFor(time.Hour))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { wantKey(t, long, "openai", "openai-key") })
	}
	all.Wait()
	wantKey(t, long, "anthropic", "anthropic-key")
	if n.Load() != 2 {
		t.Errorf("the service was asked %d times for two keys", n.Load())
	}
	n.Store(0)
	expired := bus.NewKeys(c, validFor(-time.Second))
	wantKey(t, expired, "openai", "openai-key")
	wantKey(t, expired, "openai", "openai-key")
	short := bus.NewKeys(c, validFor(10*time.Millisecond))
	bustest.Eventually(t, "a cached key expires", func() bool {
		wantKey(t, short, "openai", "openai-key")
		return n.Load() >= 4
	})
}

func TestKeyServiceWithoutKey(t *testing.T) {
	t.Parallel()
	c := bustest.Connect(t, bustest.Server(t))
	keyService(t, c, func(m *nats.Msg) { _ = m.Respond(nil) })
	wantKey(t, bus.NewKeys(c, validFor(time.Hour)), "openai", "")
}

func TestKeyServiceFailures(t *testing.T) {
	t.Parallel()
	const secret = "sk-secret"
	unreadable := bus.KeyOptions{Parse: func([]byte) (string, time.Time, error) {
		return "", time.Time{}, errors.New("not a key")
	}}
	for _, c := range []struct {
		name, provider, want string
		code                 schemas.FailureCode
		o                    bus.KeyOptions
		answer               func(m *nats.Msg)
	}{
		{"not there", "openai", "key service unavailable: nobody listens to agent.key.openai", schemas.FailureConnection,
			validFor(time.Hour), nil},
		{"silent", "openai", "key service timed out", schemas.FailureTimeout,
			bus.KeyOptions{Timeout: 20 * time.Millisecond}, func(*nats.Msg) {}},
		{"unreadable", "openai", "not a key", schemas.FailureUnknown,
			unreadable, func(m *nats.Msg) { _ = m.Respond([]byte(secret)) }},
		{"refuses", "openai", `refused the key at agent.key.openai with code "403"`, schemas.FailureAuth,
			validFor(time.Hour), func(m *nats.Msg) {
				out := nats.NewMsg(m.Reply)
				out.Header.Set(micro.ErrorCodeHeader, "403")
				out.Header.Set(micro.ErrorHeader, "not with "+secret)
				_ = m.RespondMsg(out)
			}},
		{"refuses with the key as its code", "openai", `refused the key at agent.key.openai with code ""`,
			schemas.FailureAuth, validFor(time.Hour), func(m *nats.Msg) {
				out := nats.NewMsg(m.Reply)
				out.Header.Set(micro.ErrorCodeHeader, secret)
				_ = m.RespondMsg(out)
			}},
		{"is not asked", "a.>", "illegal subject", schemas.FailureUnknown, validFor(time.Hour), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn := bustest.Connect(t, bustest.Server(t))
			if c.answer != nil {
				keyService(t, conn, c.answer)
			}
			key, err := bus.NewKeys(conn, c.o).Key(bustest.Deadline(t), c.provider)
			if key != "" || err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("%q, %v; want an error with %s", key, err, c.want)
			}
			if code := schemas.FailureCodeOf(err); code != c.code {
				t.Errorf("the code of %v is %s, want %s", err, code, c.code)
			}
		})
	}
}

// A call that waits for the request of another call returns when its context ends.
func TestWaitingForKeyEndsWithContext(t *testing.T) {
	t.Parallel()
	c := bustest.Connect(t, bustest.Server(t))
	requests := make(chan *nats.Msg, 1)
	keyService(t, c, func(m *nats.Msg) { requests <- m })
	k := bus.NewKeys(c, bus.KeyOptions{Parse: validFor(time.Hour).Parse, Timeout: 30 * time.Second})
	var first sync.WaitGroup
	first.Go(func() { wantKey(t, k, "openai", "late") })
	m := <-requests
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Key(ctx, "openai"); !errors.Is(err, context.Canceled) {
		t.Errorf("the canceled call returned %v", err)
	}
	if err := m.Respond([]byte("late")); err != nil {
		t.Fatal(err)
	}
	first.Wait()
}

// Callers of a silent service do not wait one after the other, each for the whole limit.
func TestCallersOfASilentKeyServiceWaitAtOnce(t *testing.T) {
	t.Parallel()
	const limit, callers = 300 * time.Millisecond, 20
	c := bustest.New(t)
	silent, err := c.NATS().SubscribeSync(c.Subjects().Key("vendor"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Unsubscribe() }() // or the connection waits for it before it closes
	keys := bus.NewKeys(c, bus.KeyOptions{Timeout: limit})
	began := time.Now()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			_, err := keys.Key(t.Context(), "vendor")
			if code := schemas.FailureCodeOf(err); code != schemas.FailureTimeout {
				t.Errorf("code %q: %v", code, err)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > callers*limit/2 {
		t.Errorf("%d callers have waited %s, with a limit of %s", callers, took, limit)
	}
	if n, _, err := silent.Pending(); err != nil || n == 0 {
		t.Errorf("the service has got %d requests, %v", n, err)
	}
}

// A key service sees the reply subjects of its own requests. From them it must not be able to guess those of other
// requests of the process.
func TestKeyServiceCannotGuessOtherInboxes(t *testing.T) {
	t.Parallel()
	c := bustest.Connect(t, bustest.Server(t))
	seen := make(chan string, 2)
	keyService(t, c, func(m *nats.Msg) { seen <- m.Reply; _ = m.Respond([]byte("key")) })
	// The reply subject of this request is an inbox of the connection.
	if _, err := c.JetStream().AccountInfo(bustest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	k := bus.NewKeys(c, validFor(time.Hour))
	wantKey(t, k, "openai", "key")
	wantKey(t, k, "anthropic", "key")
	own := c.NATS().NewRespInbox()
	shared := own[:strings.LastIndex(own, ".")+1]
	for range 2 {
		if inbox := <-seen; strings.HasPrefix(inbox, shared) {
			t.Errorf("the service answers at %q, others at %q", inbox, own)
		}
	}
}
