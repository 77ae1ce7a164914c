package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// TestHeldSessionsAreReadyForTheirCommands holds a session that waits for memory: its command is needed only once there
// is room, and is then delivered without waiting, to the session that was loaded. A held session is not kept in memory
// for longer.
func TestHeldSessionsAreReadyForTheirCommands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 300 << 10
		answer, asked := make(chan struct{}), make(chan string, 10)
		r := looptest.New(t, looptest.ModelFunc(func(_ context.Context, req schemas.ModelRequest) (
			*schemas.AssistantMessage, error) {
			if asked <- req.SessionID; req.SessionID == "busy" {
				<-answer
			}
			return looptest.Say("done"), nil
		}), func(o *host.Options) {
			o.WorkBytes = 4 * 400 << 10 // one session
		})
		deliver := func(ctx context.Context, session, id, text string) error {
			c := looptest.Command(id, looptest.Prompt(text))
			c.Session = session
			return r.Host.Deliver(ctx, c, nil)
		}
		if err := deliver(t.Context(), "waits", "p1", strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
		busy := make(chan error, 1)
		go func() { busy <- deliver(t.Context(), "busy", "p1", strings.Repeat("x", size)) }()
		synctest.Wait()

		type hold struct {
			ctx     context.Context
			release func()
			err     error
		}
		holding, waits := make(chan hold, 1), false
		go func() {
			ctx, release, err := r.Host.Hold(t.Context(), "waits", func() { waits = true })
			holding <- hold{ctx, release, err}
		}()
		synctest.Wait()
		if len(holding) > 0 || !waits {
			t.Fatalf("a session is held for which there is no room, or does not say that it waits: %v", waits)
		}
		answer <- struct{}{}
		if err := <-busy; err != nil {
			t.Fatal(err)
		}
		held := <-holding
		if held.err != nil {
			t.Fatal(held.err)
		}
		go func() { busy <- deliver(t.Context(), "busy", "p2", "more") }()
		synctest.Wait() // it waits, as the one that is held has the room
		if err := deliver(held.ctx, "waits", "p2", "go"); err != nil {
			t.Fatal(err)
		}
		answer <- struct{}{}
		if err := <-busy; err != nil { // although the first is not released yet
			t.Fatal(err)
		}
		held.release()
		held.release()
		waits = false
		if _, release, err := r.Host.Hold(t.Context(), "new", func() { waits = true }); err != nil || waits {
			t.Errorf("a new session waits: %v, %v", waits, err)
		} else {
			release()
		}
		close(asked)
		var all []string
		for session := range asked {
			all = append(all, session)
		}
		if got := strings.Join(all, " "); got != "waits busy waits busy" {
			t.Errorf("models asked for %s", got)
		}
		if err := r.Host.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, _, err := r.Host.Hold(t.Context(), "waits", func() {}); !errors.Is(err, host.ErrClosed) {
			t.Errorf("held after the end: %v", err)
		}
	})
}

// TestAHeldSessionThatWasLostIsLoadedAgain has another host extend a session while it is held, and another delivery
// find that out: the command is carried out all the same, although there is room for one session only.
func TestAHeldSessionThatWasLostIsLoadedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
			return looptest.Say("done"), nil
		})
		room := func(o *host.Options) { o.WorkBytes = 4 * 400 << 10 }
		r := looptest.New(t, model, room)
		r.Deliver("p1", looptest.Prompt(strings.Repeat("x", 300<<10)))
		ctx, release, err := r.Host.Hold(t.Context(), "s1", func() {})
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		deliver := func(ctx context.Context, h *host.Host, id string) {
			if err := h.Deliver(ctx, looptest.Command(id, looptest.Prompt(id)), nil); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		deliver(t.Context(), r.NewHost(model, room), "p2")
		other := make(chan struct{})
		go func() {
			defer close(other)
			deliver(t.Context(), r.Host, "p3")
		}()
		synctest.Wait() // it has to load the session again, and waits for memory
		deliver(ctx, r.Host, "p4")
		<-other
		if n := r.Count(schemas.EventAgentEnd); n != 4 {
			t.Errorf("%d runs of 4 have ended", n)
		}
	})
}
