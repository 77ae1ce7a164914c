package models_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/schemas"
)

// subscribe returns a subscription that has reached the NATS server.
func subscribe(t *testing.T, nc *nats.Conn, subject string) *nats.Subscription {
	t.Helper()
	sub, err := nc.SubscribeSync(subject)
	if err == nil {
		err = nc.FlushTimeout(10 * time.Second)
	}
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// next returns the next message of a subscription.
func next(t *testing.T, sub *nats.Subscription) *nats.Msg {
	t.Helper()
	m, err := sub.NextMsgWithContext(bustest.Deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Where somebody else subscribes to the answers too, the NATS server does not report that the caller is gone.
func TestALostCallerEndsTheCallBesideAnotherSubscriber(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	subscribe(t, bustest.Connect(t, server).NATS(), ">")
	ended := make(chan struct{})
	serveModels(t, bustest.Connect(t, server), halfReply(ended), models.ServerOptions{Heartbeat: 10 * time.Millisecond,
		CallerTimeout: 300 * time.Millisecond})
	caller := bustest.Connect(t, server)
	streamHalf(t, bustest.Deadline(t), models.NewClient(caller, models.ClientOptions{Heartbeat: 10 * time.Millisecond}),
		caller.Close)
	await(t, "the model stops", ended)
}

// A caller that lives keeps its call for longer than it may be silent, also while it waits for its reply's reader.
func TestCallersHeartbeatsKeepACall(t *testing.T) {
	t.Parallel()
	const timeout, interval = 2 * time.Second, 20 * time.Millisecond
	server := bustest.Server(t)
	signs := subscribe(t, bustest.Connect(t, server).NATS(), "agent.model.call.*")
	ended := make(chan struct{})
	serveModels(t, bustest.Connect(t, server), halfReply(ended), models.ServerOptions{CallerTimeout: timeout})
	client := models.NewClient(bustest.Connect(t, server), models.ClientOptions{Heartbeat: interval})
	streamHalf(t, bustest.Deadline(t), client, func() {
		for begun := time.Now(); time.Since(begun) < timeout+timeout/4; {
			if m := next(t, signs); m.Header.Get("Loopbus-Model-Heartbeat") == "" || m.Header.Get("Loopbus-Model-Seq") != "" {
				t.Errorf("not a heartbeat: %v", m.Header)
			}
		}
		select {
		case <-ended:
			t.Error("the call has ended although its caller lives")
		default:
		}
		server.Shutdown()
	})
}

// begin requests a model as a caller in another language would, and returns the subject of the call.
func begin(t *testing.T, server *embedded.Server, header nats.Header) (nc *nats.Conn, control string,
	answers *nats.Subscription) {
	t.Helper()
	nc = bustest.Connect(t, server).NATS()
	inbox := nats.NewInbox()
	answers = subscribe(t, nc, inbox)
	header.Set("Loopbus-Model-Seq", "1")
	if err := nc.PublishMsg(&nats.Msg{Subject: "agent.model.request", Reply: inbox, Header: header,
		Data: []byte(`{"model":{"id":"m"},"messages":[]}`)}); err != nil {
		t.Fatal(err)
	}
	f, err := schemas.DecodeModelFrame(next(t, answers).Data)
	if err != nil {
		t.Fatal(err)
	}
	return nc, "agent.model.call." + f.Call, answers
}

// A caller that has announced no heartbeats, as those of older versions, need not send any.
func TestACallerWithoutHeartbeatsIsServed(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	ended := make(chan struct{})
	serveModels(t, bustest.Connect(t, server), halfReply(ended), models.ServerOptions{Heartbeat: 5 * time.Millisecond,
		CallerTimeout: 10 * time.Millisecond})
	nc, control, answers := begin(t, server, nats.Header{})
	for range 50 {
		next(t, answers)
	}
	select {
	case <-ended:
		t.Fatal("the call has ended")
	default:
	}
	if err := nc.PublishMsg(&nats.Msg{Subject: control, Header: nats.Header{"Loopbus-Model-Cancel": {"1"}}}); err != nil {
		t.Fatal(err)
	}
	await(t, "the model stops", ended)
}

// Heartbeats of others do not keep a call: they do not know its token. A caller that is silent only to the server gets
// an error after which it tries again.
func TestHeartbeatsOfOthersKeepNoCall(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	ended := make(chan struct{})
	serveModels(t, bustest.Connect(t, server), halfReply(ended), models.ServerOptions{Heartbeat: 5 * time.Millisecond,
		CallerTimeout: 200 * time.Millisecond})
	nc, control, answers := begin(t, server,
		nats.Header{"Loopbus-Model-Heartbeat": {"1"}, "Loopbus-Model-Token": {"mine"}})
	for {
		f, err := schemas.DecodeModelFrame(next(t, answers).Data)
		if err == nil && f.Event != nil && f.Event.Terminal() {
			if f.Event.FailureCode != schemas.FailureConnection {
				t.Errorf("the call ends with %q, %+v", f.Event.FailureCode, f.Message)
			}
			break
		}
		if err := nc.PublishMsg(&nats.Msg{Subject: control,
			Header: nats.Header{"Loopbus-Model-Heartbeat": {"1"}}}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the model stops", ended)
}
