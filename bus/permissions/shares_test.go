package permissions_test

import (
	"context"
	"iter"
	"testing"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/schemas"
)

// slowModel replies once leave is closed.
type slowModel struct{ entered, leave chan struct{} }

func (m slowModel) Stream(ctx context.Context, _ schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		m.entered <- struct{}{}
		select {
		case <-m.leave:
		case <-ctx.Done():
		}
		yield(schemas.StreamEvent{Type: schemas.StreamDone, Reason: schemas.StopStop,
			Message: &schemas.AssistantMessage{API: "a", Provider: "p", Model: "m", StopReason: schemas.StopStop,
				Content: schemas.Contents{schemas.Text{Text: "hi"}}}}, nil)
	}
}

// A user of models with an account of its own leaves places for those of other accounts.
func TestAnAccountLeavesPlacesOfModels(t *testing.T) {
	t.Parallel()
	const places = 4
	var own []permissions.User
	for _, name := range []string{"greedy", "modest"} {
		own = append(own, permissions.User{Name: name, Password: name, Roles: []permissions.Name{permissions.ModelUser}})
	}
	addr := crossing(t, own)
	connect := func(user string) *bus.Conn {
		return bustest.Dial(t, bus.ConnOptions{URL: "nats://" + user + ":" + user + "@" + addr,
			Dial: dial.Settings{InboxPrefix: "_INBOX_" + user}})
	}
	model := slowModel{make(chan struct{}, places), make(chan struct{})}
	server := models.NewServer(connect(string(permissions.ModelServer)), models.ServerOptions{Model: model,
		Concurrency: places})
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	bustest.Within(t, server.Ready())
	call := func(user string) <-chan schemas.StreamEvent {
		client, last := models.NewClient(connect(user), models.ClientOptions{}), make(chan schemas.StreamEvent, 1)
		go func() {
			var e schemas.StreamEvent
			for e = range client.Stream(bustest.Deadline(t), schemas.ModelRequest{Model: schemas.ModelRef{ID: "m"}}) {
			}
			last <- e
		}()
		return last
	}
	var calls []<-chan schemas.StreamEvent
	begin := func(user string) {
		calls = append(calls, call(user))
		bustest.Within(t, model.entered)
	}
	for range places / 2 {
		begin("greedy")
	}
	if e := bustest.Within(t, call("greedy")); e.FailureCode != schemas.FailureOverloaded {
		t.Errorf("a call beyond an account's share: %+v", e)
	}
	begin("modest")
	close(model.leave)
	for _, last := range calls {
		if e := bustest.Within(t, last); e.Type != schemas.StreamDone {
			t.Errorf("a call that has a place: %+v", e)
		}
	}
}
