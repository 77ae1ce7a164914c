package host_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// TestSessionsAtWorkHaveRoom has sessions whose contexts take more memory together than sessions at work may: each
// waits until the one before is at rest. Those of another size do not wait for them. A session that grows while it is
// at work gives its place up if there is no more, and goes on when there is.
func TestSessionsAtWorkHaveRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, gates := make(chan string, 20), map[string]chan struct{}{}
		for _, session := range []string{"medium1", "medium2", "small", "large"} {
			gates[session] = make(chan struct{}, 10)
		}
		model := looptest.ModelFunc(func(ctx context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error) {
			asked <- req.SessionID
			select {
			case <-gates[req.SessionID]:
				return looptest.Say("done"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		r := looptest.New(t, model, func(o *host.Options) { o.WorkBytes = 4 << 20 })
		var delivering sync.WaitGroup
		later := 0
		deliver := func(session, id string, data schemas.CommandData) {
			delivering.Go(func() {
				c := looptest.Command(id, data)
				c.Session = session
				err := r.Host.Deliver(t.Context(), c, nil)
				for errors.Is(err, schemas.ErrLater) || errors.Is(err, context.Canceled) { // as the inbox does
					later++
					err = r.Host.Deliver(t.Context(), c, nil)
				}
				if err != nil {
					t.Errorf("%s: %v", session, err)
				}
			})
			synctest.Wait()
		}
		prompt := func(session string, bytes int) {
			deliver(session, session, looptest.Prompt(strings.Repeat("x", bytes)))
		}
		want := func(what, want string) {
			t.Helper()
			synctest.Wait()
			var all []string
			for len(asked) > 0 {
				all = append(all, <-asked)
			}
			if have := strings.Join(all, ", "); have != want {
				t.Errorf("%s: models asked: %q; want %q", what, have, want)
			}
		}
		prompt("medium1", 3<<20)
		prompt("medium2", 2<<20)
		prompt("small", 1<<10)
		prompt("large", 5<<20)
		want("begin", "medium1, small, large")
		if later != 1 {
			t.Errorf("%d deliveries for later, want that of the session that waits", later)
		}
		gates["medium1"] <- struct{}{}
		want("in turn", "medium2")
		deliver("medium2", "steer", &schemas.Steer{Input: schemas.Input{Text: strings.Repeat("x", 3<<20)}})
		gates["medium2"] <- struct{}{} // nobody waits for that reply any more
		want("grown", "")
		gates["small"] <- struct{}{}
		want("small", "")
		gates["large"] <- struct{}{}
		want("room", "medium2")
		gates["medium2"] <- struct{}{}
		synctest.Wait()
		close(gates["medium2"])
		delivering.Wait()
		for _, session := range []string{"medium1", "medium2", "small", "large"} {
			log, err := r.Store.Open(t.Context(), session)
			if err != nil {
				t.Fatal(err)
			}
			var last schemas.Event
			for e, err := range log.Read(t.Context(), 1) {
				if err != nil {
					t.Fatal(err)
				}
				last = e
			}
			if end, ok := last.Data.(*schemas.AgentEnd); !ok || end.TerminationReason != schemas.EndNoToolCalls {
				t.Errorf("the last event of %s is %s", session, last.Type())
			}
		}
	})
}
