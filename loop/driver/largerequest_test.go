package driver_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// slowToAnswer is a model that begins to answer when it may, and at once in the session small.
type slowToAnswer struct {
	asked  chan<- string // the sessions of its requests
	answer <-chan struct{}
}

// Stream implements [driver.Model].
func (m slowToAnswer) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		if ctx.Err() != nil {
			yield(schemas.StreamEvent{}, ctx.Err())
			return
		}
		m.asked <- req.SessionID
		if req.SessionID != "small" {
			<-m.answer
		}
		yield(schemas.StreamEvent{Type: schemas.StreamDone, Message: looptest.Say("done")}, nil)
	}
}

// TestLargeRequestsTakeTurns has models that do not answer for a while, and contexts that take more memory together, as
// JSON, than a process has: a request is made when the one before is answered. Others do not wait for them, an aborted
// run does not wait for its turn, and to wait is not to be idle.
func TestLargeRequestsTakeTurns(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("<", 3<<20) // six times as long as JSON for browsers
	synctest.Test(t, func(t *testing.T) {
		asked, answer := make(chan string, 10), make(chan struct{})
		defer close(answer)
		r := looptest.New(t, slowToAnswer{asked, answer}, func(o *host.Options) { o.IdleTimeout = time.Minute })
		replies := make(chan string, 10)
		r.Store.OnAppend = func(e schemas.Event, stored bool) error {
			if end, ok := e.Data.(*schemas.MessageEnd); ok && stored && end.MessageID != "" {
				if m, ok := end.Message.Message.(*schemas.AssistantMessage); ok {
					replies <- fmt.Sprintf("%s %s", e.Session, m.StopReason)
				}
			}
			return nil
		}
		deliver := func(session string, data schemas.CommandData) {
			go func() {
				c := looptest.Command(session+string(data.CommandKind()), data)
				c.Session = session
				if err := r.Host.Deliver(t.Context(), c, nil); err != nil {
					t.Errorf("%s: %v", session, err)
				}
			}()
			synctest.Wait()
		}
		want := func(what string, have <-chan string, want string) {
			t.Helper()
			synctest.Wait()
			var all []string
			for len(have) > 0 {
				all = append(all, <-have)
			}
			if got := strings.Join(all, ", "); got != want {
				t.Errorf("%s: %s; want %s", what, got, want)
			}
		}
		for _, session := range []string{"large1", "large2", "large3"} {
			deliver(session, looptest.Prompt(large))
		}
		deliver("small", looptest.Prompt("go"))
		want("asked", asked, "large1, small")
		deliver("large3", &schemas.Abort{})
		want("asked after the abort", asked, "")
		want("replies", replies, "small stop, large3 aborted")
		time.Sleep(50 * time.Second)
		answer <- struct{}{}
		want("asked in turn", asked, "large2")
		time.Sleep(50 * time.Second)
		answer <- struct{}{}
		want("replies in turn", replies, "large1 stop, large2 stop")
	})
}
