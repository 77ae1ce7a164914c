package permissions_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/schemas"
)

// endless is a model that says a word and then nothing until its context ends, when it closes ended.
type endless struct{ ended chan struct{} }

func (m endless) Stream(ctx context.Context, _ schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		defer close(m.ended)
		if yield(schemas.StreamEvent{Type: schemas.StreamTextDelta, Delta: "a"}, nil) {
			<-ctx.Done()
		}
	}
}

// The NATS server does not report to another account that a caller is gone. Its heartbeats, with the permissions of a
// caller in an account of its own, tell.
func TestALostCallerOfAnotherAccountEndsItsCall(t *testing.T) {
	t.Parallel()
	addr := crossing(t, users(permissions.ModelUser))
	as := func(name permissions.Name) *bus.Conn {
		user := string(name)
		return bustest.Dial(t, bus.ConnOptions{URL: "nats://" + user + ":" + user + "@" + addr,
			Dial: dial.Settings{InboxPrefix: "_INBOX_" + user}})
	}
	model := endless{ended: make(chan struct{})}
	server := models.NewServer(as(permissions.ModelServer), models.ServerOptions{Model: model,
		Heartbeat: 10 * time.Millisecond, CallerTimeout: time.Second, StopTimeout: time.Millisecond})
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- server.Run(ctx) }()
	defer func() {
		stop()
		if err := bustest.Within(t, stopped); err != nil {
			t.Error(err)
		}
	}()
	<-server.Ready()
	caller := as(permissions.ModelUser)
	control := bustest.Dial(t, bus.ConnOptions{URL: "nats://admin:admin@" + addr}).NATS()
	signs, err := control.SubscribeSync("agent.model.call.*")
	if err == nil {
		err = control.FlushTimeout(10 * time.Second)
	}
	if err != nil {
		t.Fatal(err)
	}
	client := models.NewClient(caller, models.ClientOptions{Heartbeat: 50 * time.Millisecond})
	for e := range client.Stream(bustest.Deadline(t), schemas.ModelRequest{Model: schemas.ModelRef{ID: "m"}}) {
		if e.Type != schemas.StreamTextDelta {
			continue
		}
		for begun := time.Now(); time.Since(begun) < 1500*time.Millisecond; {
			m, err := signs.NextMsgWithContext(bustest.Deadline(t))
			if err != nil || m.Header.Get(schemas.HeaderModelHeartbeat) == "" {
				t.Fatalf("not a heartbeat: %v, %v", m, err)
			}
		}
		select {
		case <-model.ended:
			t.Fatal("the call has ended although its caller lives")
		default:
		}
		caller.Close() // it sends no cancellation
	}
	bustest.Within(t, model.ended)
}
