//go:build unix

package anylanguage_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// manyHeaders returns a message with n headers. The JavaScript client of NATS takes a second for those of the largest
// size that a stream stores, n = 11,000, and minutes for those of a live message.
func manyHeaders(subject, data string, n int) *nats.Msg {
	msg := nats.NewMsg(subject)
	msg.Data = []byte(data)
	for i := range n {
		msg.Header[fmt.Sprint(i)] = []string{""}
	}
	return msg
}

// Messages of others may have many headers. The client does not have them decoded, and nothing that it shows of others
// is lost. It does read events with the largest headers that a log of the first version has.
func TestManyHeadersInJavaScript(t *testing.T) {
	t.Parallel()
	needsNode(t)
	const stored = 7000 // close to the 64 KiB of headers that a stream stores
	model := system.NewGated(6, chunked(t, scripted.Text("a reply that is long enough")))
	sys := system.StartAlone(t, system.Options{Model: model, UpdateInterval: -1})
	serveQueries(t, sys)
	t.Cleanup(model.Release)
	nc, js := sys.Client.NATS(), sys.Client.JetStream()
	publish := func(msgs ...*nats.Msg) {
		t.Helper()
		for _, msg := range msgs {
			if _, err := js.PublishMsg(bustest.Deadline(t), msg); err != nil {
				t.Fatal(err)
			}
		}
	}
	id := strings.Repeat("\U0001F600", schemas.MaxCommandID)
	session := strings.Repeat("s", 64)
	old := schemas.StoredEvent{Event: schemas.Event{Session: session, Seq: 1, Source: "/loopbus/runner/" + session,
		RunID: "r1", TurnID: "t1", CorrelationID: id, CausationID: id, PrevHash: schemas.Hash(nil, nil),
		TraceParent: "00-" + strings.Repeat("a", 32) + "-" + strings.Repeat("b", 16) + "-01"},
		Name: string(schemas.EventCommandRejected), Raw: []byte(`{"reason":"x"}`)}
	header, data := old.Binary()
	publish(&nats.Msg{Subject: "agent.evt." + session, Header: header, Data: data},
		manyHeaders("$KV."+schemas.BucketProfiles+".p", `{"description":"an answer"}`, stored),
		manyHeaders("agent.dead.AGENT_CMD.s1", "many", stored), manyHeaders("agent.dead.AGENT_CMD.s1", "few", 10))
	if _, err := nc.Subscribe("agent.query.many", func(m *nats.Msg) {
		_ = m.RespondMsg(manyHeaders("", "{}", stored))
	}); err != nil {
		t.Fatal(err)
	}
	sys.Prompt(t, "s1", "go")
	<-model.Reached
	released := false
	var got []string
	node := startScript(t, sys.URL, "headers", session)
	node.lines(func(l line) {
		if l.Text != "" {
			got = append(got, l.Text)
			return
		}
		log := "agent.evt.s1"
		if !released {
			released = true
			for range 3 { // no stream stores what is larger than 64 KiB, but all who listen get it
				if err := nc.PublishMsg(manyHeaders("agent.live.s1.update", "{}", 20_000)); err != nil {
					t.Error(err)
				}
			}
			publish(manyHeaders(log, "", stored), manyHeaders(log, "{}", stored))
			model.Release()
		} else {
			publish(manyHeaders(log, "{}", stored))
		}
		node.goOn()
	})
	if d := cmp.Diff([]string{"run: true", "old: 1, 128 characters", "prompt: true",
		"letter: few, it is no command for s1", "letter: many, its headers are too large to be read", "profiles: ",
		"query agent.query.many: internal: the headers of the answer are too large",
		"decoded at most 5 KiB: true"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
