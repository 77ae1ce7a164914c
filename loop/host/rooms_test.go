package host_test

import (
	"context"
	"encoding/json"
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
// waits until others are at rest. Small ones do not wait. A session that grows while it is
// at work gives its place up if there is no more, and goes on when there is.
func TestSessionsAtWorkHaveRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, gates := make(chan string, 20), map[string]chan struct{}{}
		for _, session := range []string{"first", "second", "third", "small"} {
			gates[session] = make(chan struct{}, 10)
		}
		model := looptest.ModelFunc(func(ctx context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error) {
			asked <- req.SessionID
			select {
			case <-gates[req.SessionID]:
				return looptest.Say("done"), nil
			case <-ctx.Done():
				asked <- req.SessionID + " ended"
				return nil, ctx.Err()
			}
		})
		r := looptest.New(t, model, func(o *host.Options) { o.WorkBytes = 4 * 700 << 10 })
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
		prompt("first", 500<<10)
		prompt("second", 300<<10)
		prompt("small", 200<<10)
		want("begin", "first, small")
		if later != 1 {
			t.Errorf("%d deliveries for later, want that of the session that waits", later)
		}
		gates["first"] <- struct{}{}
		want("in turn", "second")
		prompt("third", 300<<10)
		want("there is room", "third")
		deliver("second", "steer", &schemas.Steer{Input: schemas.Input{Text: strings.Repeat("x", 200<<10)}})
		want("grown", "second ended")
		gates["small"] <- struct{}{}
		want("small", "")
		gates["third"] <- struct{}{}
		want("room", "second")
		close(gates["second"])
		delivering.Wait()
		for session := range gates {
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

// asking is services that tell about which session they are asked, and decide nothing once they may.
type asking struct {
	asked chan<- string
	free  <-chan struct{}
}

func (s asking) Ask(_ context.Context, _ schemas.HookRef, req schemas.HookRequest) (schemas.HookAnswer, error) {
	if m := req.Message; m != nil && m.MessageRole() != schemas.RoleToolResult {
		return schemas.HookAnswer{}, nil
	}
	s.asked <- req.Session
	<-s.free
	return schemas.HookAnswer{}, nil
}

// TestSessionsThatServicesHoldHaveRoom has large prompts to new sessions, and large results of their tools, wait for a
// slow service: those for which there is no room are not in memory.
func TestSessionsThatServicesHoldHaveRoom(t *testing.T) {
	t.Parallel()
	for _, hook := range []schemas.HookName{schemas.HookInput, schemas.HookMessageEnd} {
		t.Run(string(hook), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testHeld(t, hook) })
		})
	}
}

// deliverUntilRoom repeats a delivery until there is room for its session, as the inbox does.
func deliverUntilRoom(r *looptest.Rig, session, id string, data schemas.CommandData) {
	c := looptest.Command(id, data)
	c.Session = session
	err := r.Host.Deliver(r.T.Context(), c, nil)
	for errors.Is(err, schemas.ErrLater) {
		err = r.Host.Deliver(r.T.Context(), c, nil)
	}
	if err != nil {
		r.T.Error(err)
	}
}

func testHeld(t *testing.T, hook schemas.HookName) {
	const size = 300 << 10
	asked, free := make(chan string, 10), make(chan struct{}, 10)
	r := looptest.New(t, looptest.ToolThenDone("t1"), func(o *host.Options) {
		o.WorkBytes = 4 * 700 << 10 // two sessions
		o.Defaults.Hooks = []schemas.HookRef{{Hook: hook, Service: "s", TimeoutMs: 60_000}}
		o.Services = asking{asked, free}
	})
	var delivering sync.WaitGroup
	deliver := func(session, id string, data schemas.CommandData) {
		delivering.Go(func() { deliverUntilRoom(r, session, id, data) })
		synctest.Wait()
	}
	text := "go"
	if hook == schemas.HookInput {
		text = strings.Repeat("x", size)
	}
	for _, session := range []string{"first", "second", "third"} {
		deliver(session, "p1", looptest.Prompt(text))
	}
	for _, req := range r.Tools.TakeAll() {
		id, result := looptest.AnswerTo(req, strings.Repeat("x", size))
		deliver(req.Session, id, result)
	}
	if n := len(asked); n != 2 {
		t.Errorf("services are asked about %d sessions, want 2", n)
	}
	close(free)
	delivering.Wait()
	if n := len(asked); n != 3 {
		t.Errorf("services were asked about %d sessions, want 3", n)
	}
}

// TestAnswersOfServicesHaveRoom has a service answer small sessions at length, and models that are slow: those for
// whose answers there is no room are not in memory meanwhile, and go on when there is.
func TestAnswersOfServicesHaveRoom(t *testing.T) {
	t.Parallel()
	const size = 300 << 10
	text := strings.Repeat("x", size)
	said := schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: text}}}}
	for hook, answer := range map[schemas.HookName]schemas.HookAnswer{
		schemas.HookInput:                 {Messages: said},
		schemas.HookContext:               {Messages: said},
		schemas.HookBeforeProviderRequest: {Payload: json.RawMessage(`"` + text + `"`)},
	} {
		t.Run(string(hook), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testAnswers(t, hook, answer) })
		})
	}
}

func testAnswers(t *testing.T, hook schemas.HookName, answer schemas.HookAnswer) {
	asked, free := make(chan string, 10), make(chan struct{})
	model := looptest.ModelFunc(func(_ context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		asked <- req.SessionID
		<-free
		return looptest.Say("done"), nil
	})
	r := looptest.New(t, model, func(o *host.Options) {
		o.WorkBytes = 4 * 700 << 10 // two sessions
		o.Defaults.Hooks = []schemas.HookRef{{Hook: hook, Service: "s", TimeoutMs: 60_000}}
		o.Services = answering{answer}
	})
	var delivering sync.WaitGroup
	for _, session := range []string{"first", "second", "third"} {
		delivering.Go(func() { deliverUntilRoom(r, session, session, looptest.Prompt("go")) })
		synctest.Wait()
	}
	if n := len(asked); n != 2 {
		t.Errorf("models are asked about %d sessions, want 2", n)
	}
	free <- struct{}{}
	synctest.Wait()
	if n := len(asked); n != 3 {
		t.Errorf("once there is room models were asked about %d sessions, want 3", n)
	}
	close(free)
	delivering.Wait()
	log, err := r.Store.Open(t.Context(), "third")
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range log.Read(t.Context(), 1) {
		if end, ok := e.Data.(*schemas.AgentEnd); err != nil || ok && end.TerminationReason != schemas.EndNoToolCalls {
			t.Error(end, err)
		}
	}
}

// answering is services that give one answer.
type answering struct{ answer schemas.HookAnswer }

func (a answering) Ask(context.Context, schemas.HookRef, schemas.HookRequest) (schemas.HookAnswer, error) {
	return a.answer, nil
}
