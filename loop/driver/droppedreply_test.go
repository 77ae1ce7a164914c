package driver_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/jsonroom"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// TestRepliesWithoutRoomAreAskedForAgain has so many large replies wait to be stored, or for services to be asked about
// them, that another one may not wait: it fails, and is retried. The test is not parallel, as the rooms are those of
// the process.
func TestRepliesWithoutRoomAreAskedForAgain(t *testing.T) {
	for name, room := range map[string]*jsonroom.Room{"stored": jsonroom.Replies, "asked": jsonroom.Asked} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testRepliesWithoutRoom(t, room) })
		})
	}
}

// silent is services that decide nothing.
type silent struct{}

func (silent) Ask(context.Context, schemas.HookRef, schemas.HookRequest) (schemas.HookAnswer, error) {
	return schemas.HookAnswer{}, nil
}

func testRepliesWithoutRoom(t *testing.T, room *jsonroom.Room) {
	const all = 128 << 20
	stored, err := room.Wait(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error)
	go func() {
		release, err := room.Wait(t.Context(), all)
		if err == nil {
			release()
		}
		waited <- err
	}()
	synctest.Wait() // until the other one waits
	asked := 0
	r := looptest.New(t, looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage,
		error) {
		if asked++; asked > 1 {
			stored()
			if err := <-waited; err != nil {
				t.Error(err)
			}
		}
		return looptest.Say(strings.Repeat("x", 1<<20)), nil
	}), func(o *host.Options) {
		o.Defaults.Retry = schemas.RetryPolicy{MaxRetries: 1, BaseDelayMs: 1}
		o.Defaults.Hooks = []schemas.HookRef{{Hook: schemas.HookMessageEnd, Service: "s", TimeoutMs: 60_000}}
		o.Services = silent{}
	})
	r.Deliver("p1", looptest.Prompt("go"))
	var replies []string
	for _, e := range r.Events() {
		if end, ok := e.Data.(*schemas.MessageEnd); ok {
			if m, ok := end.Message.Message.(*schemas.AssistantMessage); ok {
				replies = append(replies, strings.TrimSpace(string(m.StopReason)+" "+string(end.FailureCode)))
				if end.FailureCode != "" && (len(m.Content) > 0 || !end.Retryable) {
					t.Errorf("failed with %d blocks, retryable: %v", len(m.Content), end.Retryable)
				}
			}
		}
	}
	if got := strings.Join(replies, ", "); got != "error overloaded, stop" {
		t.Errorf("replies: %s", got)
	}
}
