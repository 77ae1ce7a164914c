package inbox_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// commandKinds are all that have a schema.
func commandKinds() (kinds []schemas.CommandKind) {
	for _, n := range schemas.SchemaNames() {
		if n.Area == "commands" {
			kinds = append(kinds, schemas.CommandKind(n.Name))
		}
	}
	return kinds
}

// answered is a request that a server answers, wherever its reply subject leads.
type answered struct {
	about, subject, payload string
	header                  nats.Header
}

// serversAnswers prepares streams and returns requests for everything that a server answers a client.
func serversAnswers(t *testing.T, c *bus.Conn) []answered {
	t.Helper()
	js, ctx := c.JetStream(), bustest.Deadline(t)
	for _, subject := range []string{"agent.evt.s1", "agent.live.s1.update", "agent.tool.bash.s1.c1",
		"agent.tool.bash.s1.c2"} {
		if _, err := js.Publish(ctx, subject, []byte(`{"reason":"x","call":"c9","text":"do it"}`)); err != nil {
			t.Fatal(err)
		}
	}
	commit := `[{"specversion":"1.0","id":"1","source":"x","type":"dev.loopbus.event.message_end.v1","data":{}}]`
	if _, err := js.Publish(ctx, "agent.evt.commit", []byte(commit)); err != nil {
		t.Fatal(err)
	}
	tools, err := js.Stream(ctx, schemas.StreamTools)
	if err != nil {
		t.Fatal(err)
	}
	bash, err := tools.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "bash"})
	if err != nil {
		t.Fatal(err)
	}
	var acks []string
	for range 2 {
		msg, err := bash.Next()
		if err != nil {
			t.Fatal(err)
		}
		acks = append(acks, msg.Reply())
	}
	// A consumer's name is its maker's to choose, and comes back beside the state of the consumer.
	timer, _ := json.Marshal(map[string]any{"stream_name": "AGENT_EVT", "config": map[string]any{
		"name": schemas.TimerRunDeadline, "filter_subject": "agent.evt.s1", "ack_policy": "none"}})
	next := "$JS.API.CONSUMER.MSG.NEXT.AGENT_TOOL.bash"
	return []answered{
		{"a stream's acknowledgement", "agent.live.s1.update", "x", nil},
		{"a stream's refusal", "agent.evt.s1", "x", nats.Header{"Nats-Expected-Last-Subject-Sequence": {"77"}}},
		{"the acknowledgement of an acknowledgement", acks[0], "+ACK", nil},
		{"that no message waits", next, `{"batch":1,"no_wait":true}`, nil},
		{"that none came in time, and heartbeats before", next,
			`{"batch":1,"expires":60000000,"idle_heartbeat":20000000}`, nil},
		{"that a request is malformed", next, `{"batch":-1}`, nil},
		{"that there is no such message", "$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.none", "", nil},
		{"a stored message and the end of the answer", "$JS.API.DIRECT.GET.AGENT_EVT",
			`{"next_by_subj":"agent.evt.s1","seq":1,"batch":5}`, nil},
		{"a stored message", "$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.s1", "", nil},
		{"a stored commit without its headers", "$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.commit", `{"no_hdr":true}`, nil},
		{"stored commits without their headers", "$JS.API.DIRECT.GET.AGENT_EVT",
			`{"multi_last":["agent.evt.commit"],"no_hdr":true}`, nil},
		{"a stored message of the leader", "$JS.API.STREAM.MSG.GET.AGENT_EVT", `{"last_by_subj":"agent.evt.s1"}`, nil},
		{"a stream's state", "$JS.API.STREAM.INFO.AGENT_EVT", "", nil},
		{"that there is no such stream", "$JS.API.STREAM.INFO.NONE", "", nil},
		{"a consumer's state", "$JS.API.CONSUMER.INFO.AGENT_TOOL.bash", "", nil},
		{"a consumer with the name of a timer", "$JS.API.CONSUMER.CREATE.AGENT_EVT.run_deadline.agent.evt.s1",
			string(timer), nil},
		{"the account", "$JS.API.INFO", "", nil},
		{"nobody", "agent.hook.nobody", "x", nil},
	}
}

// Whoever may publish anything chooses where a server answers. No answer is taken for a command of any kind, none is
// written to a session's log but those that a client could have sent, and the runner reads on.
func TestInboxTakesNoAnswerOfAServerForACommand(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var h fakeHandler
	bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	var sent int
	for _, a := range serversAnswers(t, c) {
		for _, kind := range append(commandKinds(), "unknown") {
			sent++
			err := c.NATS().PublishMsg(&nats.Msg{Subject: a.subject, Header: a.header, Data: []byte(a.payload),
				Reply: fmt.Sprintf("agent.cmd.victim%d.%s", sent, kind)})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.NATS().FlushTimeout(bustest.SmallPartitions * 1e9); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "every answer is out of the way", func() bool { return len(inCommands(t, c)) == 0 })
	for session := range h.got {
		t.Errorf("an answer was taken for a command of session %s: %v", session, h.texts(session))
	}
	for _, r := range h.rejections() {
		if r.Code != schemas.RejectInvalid || !strings.Contains(r.Reason, "empty") || r.Kind == "unknown" {
			t.Errorf("the log of a session was told %+v", r)
		}
	}
	bustest.Send(t, c, "s1", "still there?")
	bustest.Eventually(t, "the runner reads on", func() bool { return slices.Contains(h.texts("s1"), "still there?") })
}

// TestForeignMessageIsNotRecordedForAnotherReason has a server send stored messages to the inbox that would be rejected
// anyway. A client that may not write to a session must not write a rejection into its log.
func TestForeignMessageIsNotRecordedForAnotherReason(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var h fakeHandler
	bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	for session, msg := range map[string]*nats.Msg{
		"large": {Data: make([]byte, 600<<10)},
		"reply": {Header: nats.Header{schemas.HeaderReply: {"something"}}, Data: []byte("x")},
	} {
		msg.Subject = "agent.evt." + session
		if _, err := c.JetStream().PublishMsg(bustest.Deadline(t), msg); err != nil {
			t.Fatal(err)
		}
		err := c.NATS().PublishRequest("$JS.API.DIRECT.GET.AGENT_EVT."+msg.Subject, "agent.cmd."+session+".prompt", nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	state := fmt.Sprintf(`{"type":"io.nats.jetstream.api.v1.stream_info_response","x":%q}`, strings.Repeat("x", 600<<10))
	if _, err := c.JetStream().Publish(bustest.Deadline(t), "agent.cmd.state.prompt", []byte(state)); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "all are rejected", func() bool { return bustest.Messages(t, c, schemas.StreamDead) == 3 })
	for _, r := range h.rejections() {
		t.Errorf("recorded in a session's log: %+v", r)
	}
}

// An answer of the API can be longer than what a consumer may pull at once. The inbox does not take it.
func TestALongAnswerDoesNotStopTheInbox(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var h fakeHandler
	bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	for i := range 3500 {
		key := fmt.Sprintf("$KV.agent_profiles.%04d%s", i, strings.Repeat("x", 3800))
		if _, err := c.JetStream().PublishAsync(key, nil); err != nil {
			t.Fatal(err)
		}
	}
	<-c.JetStream().PublishAsyncComplete()
	state := &nats.Msg{Subject: "$JS.API.STREAM.INFO.KV_agent_profiles", Data: []byte(`{"subjects_filter":">"}`)}
	answer, err := c.NATS().RequestMsg(state, 10*time.Second)
	if err != nil || len(answer.Data) < 13_000_000 {
		t.Fatalf("the answer has %d bytes, %v", len(answer.Data), err)
	}
	state.Reply = "agent.cmd.other.prompt"
	if err := c.NATS().PublishMsg(state); err != nil {
		t.Fatal(err)
	}
	// The server answers in the order of the requests.
	if _, err := c.NATS().RequestMsg(&nats.Msg{Subject: state.Subject, Data: state.Data}, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	bustest.Send(t, c, "s1", "still there?")
	bustest.Eventually(t, "the runner reads on", func() bool { return slices.Contains(h.texts("s1"), "still there?") })
}

// inCommands are the messages that wait in the inbox. Those that a server has stored under another subject are in
// nobody's way.
func inCommands(t *testing.T, c *bus.Conn) (subjects []string) {
	t.Helper()
	s, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamCommands)
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(bustest.Deadline(t), jetstream.WithSubjectFilter("agent.cmd.>"))
	if err != nil {
		t.Fatal(err)
	}
	for subject := range info.State.Subjects {
		subjects = append(subjects, subject)
	}
	return subjects
}

// An unknown kind is as long as its sender likes, and what is repeated of it is not.
func TestInboxRepeatsOnlyTheBeginningOfAKind(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var h fakeHandler
	bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	subject := "agent.cmd.s1." + strings.Repeat("x", 3000)
	if _, err := c.JetStream().Publish(bustest.Deadline(t), subject, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "it is rejected", func() bool { return len(h.rejections()) == 1 })
	if kind := h.rejections()[0].Kind; len(kind) > 70 {
		t.Errorf("%d bytes of the kind are repeated", len(kind))
	}
}

// A sender may give a command the headers of a status. It must not keep the runner from the commands of others.
func TestInboxReadsOnBehindAStatus(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"100", "400", "404", "408", "409", "503"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			_, c := bustest.Small(t)
			var h fakeHandler
			bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
			before := consumers(t, c)
			for range 3 {
				msg := &nats.Msg{Subject: "agent.cmd.s1.abort",
					Header: nats.Header{"Status": {code}, "Description": {"Consumer Deleted"}}}
				if _, err := c.JetStream().PublishMsg(bustest.Deadline(t), msg); err != nil {
					t.Fatal(err)
				}
				bustest.Send(t, c, "s2", "after it")
			}
			bustest.Eventually(t, "the commands of others are delivered", func() bool { return len(h.texts("s2")) >= 3 })
			bustest.Eventually(t, "the status is out of the way", func() bool { return bustest.Queued(t, c) == 0 })
			if dead := bustest.Messages(t, c, schemas.StreamDead); dead != 3 {
				t.Errorf("%d dead letters, want 3", dead)
			}
			if now := consumers(t, c); !slices.Equal(now, before) {
				t.Errorf("the consumer %v was replaced by %v", before, now)
			}
		})
	}
}
