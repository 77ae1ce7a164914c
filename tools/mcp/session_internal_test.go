package mcp

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/tools"
)

// deaf is a server that does not answer a ping.
func deaf(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A server that does not answer hangs after three pings, and a call that has time left is an excuse if it was sent
// before.
func TestPulse(t *testing.T) {
	t.Parallel()
	const every = 30 * time.Second
	hour := func(ctx context.Context) (context.Context, func()) {
		return context.WithTimeout(ctx, time.Hour+time.Second)
	}
	for name, c := range map[string]struct {
		play func(ctx context.Context, p *pulse)
		ping func(context.Context) error
		want time.Duration // until it hangs
	}{
		"nothing to do": {func(context.Context, *pulse) {}, deaf, 105 * time.Second},
		"a call without a limit": {func(ctx context.Context, p *pulse) {
			p.begin(ctx, "1")
		}, deaf, 105 * time.Second},
		"a call with a limit": {func(ctx context.Context, p *pulse) {
			call, cancel := hour(ctx)
			defer cancel()
			defer p.begin(call, "1")()
			<-call.Done()
		}, deaf, time.Hour + 105*time.Second},
		"a call that is given up": {func(ctx context.Context, p *pulse) {
			call, cancel := hour(ctx)
			defer cancel()
			defer p.begin(call, "1")()
			time.Sleep(10*time.Minute + time.Second)
		}, deaf, 10*time.Minute + 105*time.Second},
		"a call of later": {func(ctx context.Context, p *pulse) {
			time.Sleep(50 * time.Second)
			call, cancel := hour(ctx)
			defer cancel()
			defer p.begin(call, "1")()
			<-ctx.Done()
		}, deaf, 105 * time.Second},
		"calls one after the other": {func(ctx context.Context, p *pulse) {
			call, cancel := hour(ctx)
			defer cancel()
			first := p.begin(call, "1")
			time.Sleep(2 * time.Minute) // and there is an answer
			second := p.begin(call, "2")
			p.heard()
			first()
			time.Sleep(10*time.Minute + time.Second)
			second()
		}, deaf, 12*time.Minute + 105*time.Second},
		"a call that is refused": {func(ctx context.Context, p *pulse) {
			call, cancel := hour(ctx)
			defer cancel()
			defer p.begin(call, "1")()
			<-ctx.Done()
		}, func(context.Context) error { return errors.New("connection refused") }, 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				p := new(pulse)
				go c.play(ctx, p)
				synctest.Wait()
				begun := time.Now()
				if !p.watch(ctx, every, c.ping) {
					t.Error("it does not hang")
				}
				if got := time.Since(begun); got != c.want {
					t.Errorf("it hangs after %v, want %v", got, c.want)
				}
			})
		})
	}
}

// A call that a closed session does not send was not made.
func TestACallThatIsNotSent(t *testing.T) {
	t.Parallel()
	here, there := sdk.NewInMemoryTransports()
	server, err := sdk.NewServer(&sdk.Implementation{Name: "zoo"}, nil).Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := sdk.NewClient(&sdk.Implementation{Name: "loopbus"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = client.Close(), server.Close()
	s := &session{client, new(pulse), make(chan error, 1)}
	b := &Bridge{session: s, o: BridgeOptions{Server: ServerConfig{Name: "zoo"}}}
	if _, err = b.call(t.Context(), "echo", tools.Call{}); err == nil || !strings.HasSuffix(err.Error(),
		"the call was not made") {
		t.Errorf("%v", err)
	}
	if len(s.broken) != 1 {
		t.Error("the session is kept")
	}
}
