package wire_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/integration/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const deadline = 30 * time.Second

// funcTap is a tap of optional functions. It passes messages for which it has none.
type funcTap struct {
	sent, received func(m *wire.Message) wire.Verdict
	probed         func() wire.Verdict
}

func (f funcTap) Sent(m *wire.Message) wire.Verdict {
	if f.sent == nil {
		return wire.Pass
	}
	return f.sent(m)
}

func (f funcTap) Received(m *wire.Message) wire.Verdict {
	if f.received == nil {
		return wire.Pass
	}
	return f.received(m)
}

func (f funcTap) Probed() wire.Verdict { return f.probed() }

// on returns v for messages with this subject, and Pass for all others.
func on(subject string, v wire.Verdict) func(m *wire.Message) wire.Verdict {
	return func(m *wire.Message) wire.Verdict {
		if m.Subject == subject {
			return v
		}
		return wire.Pass
	}
}

type rig struct {
	gateway *wire.Gateway
	through *nats.Conn         // through the gateway
	direct  *nats.Conn         // to the server
	heard   *nats.Subscription // of direct, to all subjects below "t."
}

func newRig(t *testing.T, tap wire.Tap) *rig {
	t.Helper()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	g, err := wire.Listen(strings.TrimPrefix(server.ClientURL(), "nats://"), tap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	r := &rig{gateway: g, through: connect(t, g.URL()), direct: connect(t, server.ClientURL())}
	if r.heard, err = r.direct.SubscribeSync("t.>"); err != nil {
		t.Fatal(err)
	}
	if err := r.direct.Flush(); err != nil {
		t.Fatal(err)
	}
	return r
}

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func (r *rig) receives(t *testing.T, subject string) *nats.Msg {
	t.Helper()
	m, err := r.heard.NextMsg(deadline)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	if m.Subject != subject {
		t.Fatalf("received %s, want %s", m.Subject, subject)
	}
	return m
}

// receivesNothing checks that all messages sent so far were dropped: a message that is sent directly arrives first.
func (r *rig) receivesNothing(t *testing.T) {
	t.Helper()
	if err := r.direct.Publish("t.mark", nil); err != nil {
		t.Fatal(err)
	}
	r.receives(t, "t.mark")
}

func (r *rig) publish(t *testing.T, subject string) {
	t.Helper()
	m := &nats.Msg{Subject: subject, Header: nats.Header{"K": {"v"}}, Data: []byte("data of " + subject)}
	if err := r.through.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
}

func TestATapSeesWhatPasses(t *testing.T) {
	var sent, received wire.Message
	r := newRig(t, funcTap{
		sent: func(m *wire.Message) wire.Verdict {
			sent = wire.Message{Subject: m.Subject, Header: append([]byte(nil), m.Header...),
				Data: append([]byte(nil), m.Data...)}
			return wire.Pass
		},
		received: func(m *wire.Message) wire.Verdict {
			received = wire.Message{Subject: m.Subject, Reply: m.Reply, Data: append([]byte(nil), m.Data...)}
			return wire.Pass
		},
	})
	sub, err := r.through.SubscribeSync("u")
	if err != nil {
		t.Fatal(err)
	}
	r.publish(t, "t.1")
	if m := r.receives(t, "t.1"); m.Header.Get("K") != "v" || string(m.Data) != "data of t.1" {
		t.Errorf("received %q with %v", m.Data, m.Header)
	}
	if err := r.direct.PublishRequest("u", "reply", []byte("back")); err != nil {
		t.Fatal(err)
	}
	if _, err := sub.NextMsg(deadline); err != nil {
		t.Fatal(err)
	}
	if sent.Subject != "t.1" || !strings.Contains(string(sent.Header), "K: v") || string(sent.Data) != "data of t.1" {
		t.Errorf("the tap saw %+v sent", sent)
	}
	if received.Subject != "u" || received.Reply != "reply" || string(received.Data) != "back" {
		t.Errorf("the tap saw %+v received", received)
	}
}

func TestKillLosesTheMessageAndAllThatFollow(t *testing.T) {
	r := newRig(t, funcTap{sent: on("t.2", wire.Kill)})
	r.publish(t, "t.1")
	r.publish(t, "t.2")
	r.publish(t, "t.3")
	r.receives(t, "t.1")
	<-r.gateway.Dead()
	r.receivesNothing(t)
	if r.gateway.Await() {
		t.Error("a dead gateway lets pass")
	}
}

func TestLoseLosesTheMessage(t *testing.T) {
	r := newRig(t, funcTap{sent: on("t.2", wire.Lose)})
	r.publish(t, "t.2")
	r.publish(t, "t.3")
	r.receives(t, "t.3")
}

func TestCutLosesTheMessageAndLetsClientsConnectAgain(t *testing.T) {
	r := newRig(t, funcTap{sent: on("t.2", wire.Cut)})
	again := make(chan struct{})
	r.through.SetReconnectHandler(func(*nats.Conn) { close(again) })
	r.publish(t, "t.2")
	<-again
	r.publish(t, "t.3")
	r.receives(t, "t.3")
}

func TestFreezeHoldsEverythingUntilItThaws(t *testing.T) {
	frozen := make(chan struct{})
	freeze := on("t.2", wire.Freeze)
	r := newRig(t, funcTap{sent: func(m *wire.Message) wire.Verdict {
		v := freeze(m)
		if v == wire.Freeze {
			close(frozen)
		}
		return v
	}})
	r.publish(t, "t.1")
	r.publish(t, "t.2")
	r.receives(t, "t.1")
	<-frozen // a thaw before the freeze would have no effect
	r.receivesNothing(t)
	thawing := make(chan bool, 1)
	go func() { thawing <- r.gateway.Await() }()
	r.gateway.Thaw()
	r.receives(t, "t.2")
	if !<-thawing {
		t.Error("Await reported that the gateway is dead")
	}
}

func TestProbeIsAskedOnceTheServerHasHandledTheMessage(t *testing.T) {
	r := newRig(t, funcTap{sent: on("t.1", wire.Probe), probed: func() wire.Verdict { return wire.Kill }})
	r.publish(t, "t.1")
	<-r.gateway.Dead()
	r.receives(t, "t.1")
}
