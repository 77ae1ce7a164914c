package host_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// A copy takes several times its context until it is stored, and a model may ask for many in a reply: few are made at
// once, and one that is given up leaves its place.
func TestFewCopiesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const source = "s1"
		gate, reading := make(chan struct{}), new(atomic.Int32)
		model := looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
			return looptest.Say("ok"), nil
		})
		r := looptest.New(t, model)
		r.Deliver("p1", looptest.Prompt("go"))
		r.Host = r.NewHost(model, func(o *host.Options) {
			open := o.Open
			o.Open = func(ctx context.Context, session string) (host.SessionLog, error) {
				if session == source {
					reading.Add(1)
					defer reading.Add(-1)
					select {
					case <-gate:
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				return open(ctx, session)
			}
		})
		done, started := make(chan error, 10), 0
		branch := func(ctx context.Context) {
			started++
			c := looptest.Command(fmt.Sprintf("b%d", started), &schemas.Branch{Session: source})
			c.Session = fmt.Sprintf("copy%d", started)
			go func() { done <- r.Host.Deliver(ctx, c, nil) }()
		}
		ctx, cancel := context.WithCancel(t.Context())
		branch(ctx)
		for range 5 {
			branch(t.Context())
		}
		synctest.Wait()
		if n := reading.Load(); n != 2 {
			t.Errorf("%d copies are made at once, want 2", n)
		}
		cancel()
		if err := <-done; err == nil {
			t.Error("a copy that was given up")
		}
		synctest.Wait()
		if n := reading.Load(); n != 2 {
			t.Errorf("%d copies are made after one was given up, want 2", n)
		}
		close(gate)
		for range 5 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// A copy takes its turn once its target is there: sessions that wait to be loaded do not keep others from being copied.
func TestCopiesDoNotWaitForTargetsOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		r := looptest.New(t, looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage,
			error) {
			return looptest.Say("ok"), nil
		}), func(o *host.Options) {
			open := o.Open
			o.Open = func(ctx context.Context, session string) (host.SessionLog, error) {
				if strings.HasPrefix(session, "slow") {
					<-gate
				}
				return open(ctx, session)
			}
		})
		r.Deliver("p1", looptest.Prompt("go"))
		done := make(chan string, 10)
		for _, target := range []string{"slow1", "slow2", "slow3", "new"} {
			c := looptest.Command("b1", &schemas.Branch{Session: "s1"})
			c.Session = target
			go func() {
				if err := r.Host.Deliver(t.Context(), c, nil); err != nil {
					t.Error(err)
				}
				done <- target
			}()
			synctest.Wait()
		}
		if len(done) != 1 || <-done != "new" {
			t.Error("a session is not copied while the targets of others are loaded")
		}
		close(gate)
		synctest.Wait()
		if len(done) != 3 {
			t.Errorf("%d of 3 others were copied", len(done))
		}
	})
}
