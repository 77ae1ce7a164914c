package membership_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/inbox/membership"
	"github.com/loopbus/loopbus/bus/natsio"
)

// Whoever may ask a service, or read a stream, chooses where the answer goes. At the subject of heartbeats it is none,
// whatever it says.
func TestWhatIsAnsweredIsNoHeartbeat(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	var log bustest.Log
	join(t, c, "a", &log)
	attacker := bustest.Connect(t, s)
	other := bustest.Connect(t, s)
	service, err := micro.AddService(other.NATS(), micro.Config{Name: "ghosts", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = service.Stop() }()
	if err := other.NATS().Flush(); err != nil { // the service's subscriptions are on the server
		t.Fatal(err)
	}
	const stored = "agent.evt.s1"
	js := attacker.JetStream()
	if _, err := js.Publish(bustest.Deadline(t), stored, []byte(`{"id":"ghost"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateConsumer(bustest.Deadline(t), "AGENT_EVT", jetstream.ConsumerConfig{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	heard, err := attacker.NATS().SubscribeSync("agent.runner.heartbeat")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = heard.Unsubscribe() }() // what nobody reads keeps the connection from closing
	for _, ask := range []string{"$SRV.INFO.ghosts", "$JS.API.DIRECT.GET.AGENT_EVT." + stored,
		"$JS.API.CONSUMER.MSG.NEXT.AGENT_EVT.x"} {
		if err := attacker.NATS().PublishMsg(&nats.Msg{Subject: ask, Reply: heard.Subject}); err != nil {
			t.Fatal(err)
		}
		for answered := false; !answered; {
			m, err := heard.NextMsg(10 * time.Second)
			if err != nil {
				t.Fatalf("%s: %v", ask, err)
			}
			answered = !strings.Contains(string(m.Data), `"a"`)
		}
	}
	say(t, attacker, map[string]any{"id": "b"})
	bustest.Eventually(t, "what a runner says is heard", func() bool { return strings.Contains(log.String(), "peer=b") })
	if n := strings.Count(log.String(), "runner is live"); n != 1 {
		t.Errorf("%d runners were live:\n%s", n, log.String())
	}
}

// Nobody waits for the heartbeat of a runner that a server has put into the list.
func TestAnAnswerOfAServerIsNoListedRunner(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	join(t, c, "a", nil)
	bucket := func() uint64 {
		s, err := c.JetStream().Stream(bustest.Deadline(t), "KV_agent_runners")
		if err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(bustest.Deadline(t), jetstream.WithSubjectFilter("$KV.agent_runners.ghost"))
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Msgs
	}
	if err := c.NATS().PublishMsg(&nats.Msg{Subject: "agent.live.s1.update", Reply: "$KV.agent_runners.ghost",
		Data: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the answer is stored", func() bool { return bucket() > 0 })
	network := membership.NewNATS(c.NATS(), c.JetStream(), c.Subjects(), "b")
	ids, err := network.Listed(bustest.Deadline(t))
	if err != nil || !slices.Equal(ids, []string{"a"}) {
		t.Errorf("listed are %v, %v", ids, err)
	}
}

// TestProbesAreAnsweredAtUnguessableInboxes: who has seen one probe must not compute the reply subject of the next. A
// server's status 503, which anybody can have sent there, would count as a closed connection.
func TestProbesAreAnsweredAtUnguessableInboxes(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	other := bustest.Connect(t, s)
	probes := make(chan *nats.Msg, 2)
	sub, err := other.NATS().ChanSubscribe(c.Subjects().Probe("b"), probes)
	if err == nil {
		err = other.NATS().Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	network := membership.NewNATS(c.NATS(), c.JetStream(), c.Subjects(), "a")
	var seen []string
	for range 2 {
		connected := make(chan bool)
		go func() { connected <- !network.Unconnected(bustest.Deadline(t), "b") }()
		probe := <-probes
		seen = append(seen, probe.Reply)
		if err := probe.Respond(nil); err != nil {
			t.Fatal(err)
		}
		if !<-connected {
			t.Error("a runner that answers its probe counts as unconnected")
		}
	}
	shared := len(natsio.NewInbox(c.NATS())) / 2
	if seen[0][:shared] == seen[1][:shared] {
		t.Errorf("the inboxes of two probes are %q and %q", seen[0], seen[1])
	}
}
