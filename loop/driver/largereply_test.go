package driver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// storingLog tells when it gets the message_end of a reply, and stores nothing after that until it may.
type storingLog struct {
	*eventstore.Log
	got   chan<- string
	free  <-chan struct{}
	fails bool
	ended atomic.Bool
}

func (l *storingLog) Append(ctx context.Context, e schemas.Event) error {
	if end, ok := e.Data.(*schemas.MessageEnd); ok && end.Message.Message.MessageRole() == schemas.RoleAssistant {
		l.ended.Store(true)
		l.got <- fmt.Sprintf("%s %s", e.Session, end.Message.Message.(*schemas.AssistantMessage).StopReason)
	}
	return l.Log.Append(ctx, e)
}

func (l *storingLog) Flush(ctx context.Context) error {
	if l.ended.Load() {
		<-l.free
	}
	if l.ended.Load() && l.fails {
		return errors.New("no space left")
	}
	return l.Log.Flush(ctx)
}

// TestLargeRepliesAreStoredInTurn has replies end at the same time that take more memory together than a process has:
// each is put into the log when the one before is stored, or could not be. Others do not wait for them, and an aborted
// run does not wait for its turn.
func TestLargeRepliesAreStoredInTurn(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 16<<20)
	synctest.Test(t, func(t *testing.T) {
		got, free := make(chan string, 10), make(chan struct{})
		store := eventstore.NewMemory()
		r := looptest.New(t, looptest.ModelFunc(func(_ context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage,
			error) {
			if strings.HasPrefix(req.SessionID, "large") {
				return looptest.Say(large), nil
			}
			return looptest.Say(large[:100<<10]), nil
		}), func(o *host.Options) {
			o.Open = func(ctx context.Context, session string) (host.SessionLog, error) {
				log, err := store.Open(ctx, session)
				return &storingLog{Log: log, got: got, free: free, fails: session == "large1"}, err
			}
		})
		deliver := func(session string, data schemas.CommandData) {
			go func() {
				c := looptest.Command(session+string(data.CommandKind()), data)
				c.Session = session
				if err := r.Host.Deliver(t.Context(), c, nil); err != nil && session != "large1" {
					t.Errorf("%s: %v", session, err)
				}
			}()
			synctest.Wait()
		}
		want := func(want string) {
			t.Helper()
			synctest.Wait()
			var all []string
			for len(got) > 0 {
				all = append(all, <-got)
			}
			if have := strings.Join(all, ", "); have != want {
				t.Errorf("replies that the log got: %s; want %s", have, want)
			}
		}
		for _, session := range []string{"large1", "large2", "large3", "large4", "small"} {
			deliver(session, looptest.Prompt("go"))
		}
		want("large1 stop, small stop")
		deliver("large3", &schemas.Abort{})
		want("large3 aborted")
		free <- struct{}{} // to small or large1
		free <- struct{}{}
		free <- struct{}{}
		want("large2 stop")
		close(free)
		want("large4 stop")
	})
}
