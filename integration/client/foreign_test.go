package client_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// A client makes servers publish their answers to a session's log, live feed and inbox, before, during and after its
// run.
// The session runs, and a watcher receives its events once, in order.
func TestAnswersOfServersDisturbNobody(t *testing.T) {
	t.Parallel()
	s := system.StartAlone(t, system.Options{Model: chunked(t, scripted.Text("here I am"))})
	nc := s.Client.NATS()
	disturb := func() {
		for _, reply := range []string{"agent.evt.s1", "agent.live.s1.event", "agent.live.s1.update", "agent.cmd.s1.abort",
			"agent.cmd.s1.continue", "agent.cmd.s1.approve"} {
			for _, request := range []string{"$JS.API.STREAM.INFO.AGENT_EVT", "agent.live.other.update",
				"$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.s0"} {
				if err := nc.PublishMsg(&nats.Msg{Subject: request, Reply: reply}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	c := connect(t, s.URL)
	if _, err := c.Session("s0").Prompt(deadline(t), schemas.Input{Text: "be there"}); err != nil {
		t.Fatal(err)
	}
	disturb()
	for range 2 {
		run, err := c.Session("s1").Prompt(deadline(t), schemas.Input{Text: "go"})
		if err != nil {
			t.Fatal(err)
		}
		disturb()
		if _, err := run.Wait(deadline(t)); err != nil {
			t.Fatal(err)
		}
		disturb()
	}
	var next, ends uint64 = 1, 0
	for item, err := range c.Session("s1").Watch(deadline(t), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if item.Event == nil {
			continue
		}
		if item.Event.Seq != next {
			t.Fatalf("event %d, want %d", item.Event.Seq, next)
		}
		if next++; item.Event.Type() == schemas.EventAgentEnd {
			if ends++; ends == 2 {
				break
			}
			disturb()
		}
	}
}

// A server's reply behind the last event of a session does not hide that its calls wait for approval.
func TestApprovalsBehindAForeignMessage(t *testing.T) {
	t.Parallel()
	sys := asking(t)
	c := connect(t, sys.URL)
	first := following(t, c)
	for _, session := range []string{"s1", "s2"} {
		prompt(t, c.Session(session), "go")
		if a := next(t, first); a.Session != session || !a.Waiting {
			t.Fatalf("got %+v", a)
		}
	}
	log, err := sys.Conn.Events().Stream(deadline(t), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	before := log.CachedInfo().State.LastSeq
	if err := sys.Conn.NATS().PublishMsg(&nats.Msg{Subject: "$JS.API.INFO", Reply: "agent.evt.s1"}); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the reply is stored", func() bool {
		info, err := log.Info(deadline(t))
		return err == nil && info.State.LastSeq > before
	})
	late, seen := following(t, connect(t, sys.URL)), map[string]bool{}
	for range 2 {
		a := next(t, late)
		seen[a.Session] = a.Waiting
	}
	if !seen["s1"] || !seen["s2"] {
		t.Errorf("the calls that wait: %v", seen)
	}
}
