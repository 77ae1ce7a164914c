package pubsub_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/pubsub"
	"github.com/loopbus/loopbus/schemas"
)

func deadLetters(t *testing.T, c *bus.Conn) []*jetstream.RawStreamMsg {
	t.Helper()
	s, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamDead)
	if err != nil {
		t.Fatal(err)
	}
	var out []*jetstream.RawStreamMsg
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(bustest.Deadline(t), seq)
		if err != nil {
			t.Fatal(err)
		}
		for _, added := range []string{"Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp"} {
			m.Header.Del(added) // by the direct get
		}
		out = append(out, m)
	}
	return out
}

// A handler that fails, and one that panics, on Watermill's Router: the letter is in AGENT_DEAD, the queue is empty.
func TestFailingHandlersEndInDeadLetters(t *testing.T) {
	t.Parallel()
	for name, handle := range map[string]message.NoPublishHandlerFunc{
		"an error": func(*message.Message) error { return errors.New("no such file") },
		"a panic":  func(*message.Message) error { panic("no such file") },
	} {
		t.Run(name, func(t *testing.T) {
			c := bustest.New(t)
			q := newQueue(t, c)
			sub := q.subscriber(t, pubsub.SubscriberOptions{NackDelay: func(uint64) time.Duration { return 0 }}, 10*time.Second)
			runRouter(t, sub, handle, pubsub.DeadLetter(c.JetStream(), pubsub.DeadLetterOptions{
				MaxDeliveries: 3, SessionOf: func(subject string) string { return "s-" + subject },
			}), middleware.Recoverer)
			q.publish(t, "a")
			bustest.Eventually(t, "the queue is empty", func() bool { return q.isEmpty(t) })

			letters := deadLetters(t, c)
			if len(letters) != 1 {
				t.Fatalf("%d letters", len(letters))
			}
			got := letters[0]
			if got.Subject != "agent.dead.JOBS.s-jobs" || string(got.Data) != "do a" ||
				!strings.Contains(got.Header.Get(schemas.HeaderDeadReason), "no such file") {
				t.Errorf("letter %s %q %v", got.Subject, got.Data, got.Header)
			}
			got.Header.Del(schemas.HeaderDeadReason)
			want := nats.Header{
				schemas.HeaderDeadStream: {"JOBS"}, schemas.HeaderDeadStreamSeq: {"1"}, schemas.HeaderDeadSubject: {"jobs"},
				schemas.HeaderDeadDeliveries: {"3"}, schemas.HeaderDeadMsgID: {"a"},
			}
			if id := got.Header.Get(jetstream.MsgIDHeader); !strings.HasPrefix(id, "JOBS:1:") {
				t.Errorf("the id %q", id)
			}
			got.Header.Del(jetstream.MsgIDHeader)
			if d := cmp.Diff(want, got.Header); d != "" {
				t.Errorf("headers (-want +got):\n%s", d)
			}
		})
	}
}

func runRouter(t *testing.T, sub message.Subscriber, handle message.NoPublishHandlerFunc,
	with ...message.HandlerMiddleware) {
	t.Helper()
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddMiddleware(with...)
	router.AddConsumerHandler("jobs", "jobs", sub, handle)
	ran := make(chan error)
	go func() { ran <- router.Run(context.Background()) }()
	t.Cleanup(func() {
		if err := errors.Join(router.Close(), <-ran); err != nil {
			t.Error(err)
		}
	})
	<-router.Running()
}

// While AGENT_DEAD does not take the letter the message must stay.
func TestMessageStaysIfItsLetterCannotBeStored(t *testing.T) {
	t.Parallel()
	c := bustest.Connect(t, bustest.Server(t))
	_, err := c.JetStream().CreateStream(bustest.Deadline(t), jetstream.StreamConfig{
		Name: schemas.StreamDead, Subjects: []string{"agent.dead.>"}, MaxMsgSize: 1, // every letter is too big
	})
	if err != nil {
		t.Fatal(err)
	}
	q := newQueue(t, c)
	sub := q.subscriber(t, pubsub.SubscriberOptions{NackDelay: func(uint64) time.Duration { return 0 }}, 10*time.Second)
	verdict := make(chan error)
	runRouter(t, sub, func(*message.Message) error { return <-verdict },
		pubsub.DeadLetter(c.JetStream(), pubsub.DeadLetterOptions{MaxDeliveries: 2,
			SessionOf: func(string) string { return "s1" }}))
	q.publish(t, "a")
	for range 4 { // twice more than allowed
		verdict <- errors.New("no")
	}
	if q.isEmpty(t) {
		t.Error("the message is lost")
	}
	verdict <- nil
	bustest.Eventually(t, "handled in the end", func() bool { return q.isEmpty(t) })
}

func TestPublishDead(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	limit := int(c.NATS().MaxPayload())
	tests := []struct {
		name    string
		dead    pubsub.Dead
		subject string
		check   func(t *testing.T, m *jetstream.RawStreamMsg)
	}{
		{
			"an illegal session has no subject of its own",
			pubsub.Dead{Session: "a b.c", Stream: "S", StreamSeq: 1, Reason: "x"}, "agent.dead.S._", nil,
		},
		{
			"instructions to the server are not passed on, the rest is",
			pubsub.Dead{Session: "s1", Stream: "S", StreamSeq: 2, Header: nats.Header{
				"Nats-Rollup": {"all"}, "nats-ttl": {"1s"}, "Nats-Expected-Stream": {"X"}, "ce-id": {"5"},
			}},
			"agent.dead.S.s1",
			func(t *testing.T, m *jetstream.RawStreamMsg) {
				for key := range m.Header {
					if strings.HasPrefix(strings.ToLower(key), "nats-") && key != "Nats-Msg-Id" {
						t.Errorf("header %s", key)
					}
				}
				if m.Header.Get("ce-id") != "5" {
					t.Errorf("headers %v", m.Header)
				}
			},
		},
		{
			"the reason is one short line",
			pubsub.Dead{Session: "s1", Stream: "S", StreamSeq: 3, Reason: "a\r\nb: \xff" + strings.Repeat("é", 4000)},
			"agent.dead.S.s1",
			func(t *testing.T, m *jetstream.RawStreamMsg) {
				reason := m.Header.Get(schemas.HeaderDeadReason)
				if len(reason) > 1024 || !strings.HasPrefix(reason, "a b: ?é") {
					t.Errorf("reason of %d bytes: %.40q", len(reason), reason)
				}
			},
		},
		{
			"the largest payload is cut to make room",
			pubsub.Dead{Session: "s1", Stream: "S", StreamSeq: 4, Data: make([]byte, limit), Header: nats.Header{"k": {"v"}}},
			"agent.dead.S.s1",
			func(t *testing.T, m *jetstream.RawStreamMsg) {
				if m.Header.Get(schemas.HeaderDeadSize) == "" || len(m.Data) < limit-2000 || m.Header.Get("k") != "v" {
					t.Errorf("%d bytes, %v", len(m.Data), m.Header)
				}
			},
		},
		{
			"the largest headers are left out",
			pubsub.Dead{Session: "s1", Stream: "S", StreamSeq: 5, Data: []byte("payload"),
				Header: nats.Header{"k": {strings.Repeat("v", limit)}}},
			"agent.dead.S.s1",
			func(t *testing.T, m *jetstream.RawStreamMsg) {
				if m.Header.Get("k") != "" || string(m.Data) != "payload" {
					t.Errorf("%d headers, data %q", len(m.Header), m.Data)
				}
			},
		},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 { // the second time is a repetition
				if err := pubsub.PublishDead(bustest.Deadline(t), c.JetStream(), c.Subjects(), tt.dead); err != nil {
					t.Fatal(err)
				}
			}
			letters := deadLetters(t, c)
			if len(letters) != i+1 {
				t.Fatalf("%d letters", len(letters))
			}
			if m := letters[i]; m.Subject != tt.subject {
				t.Errorf("subject %s", m.Subject)
			} else if tt.check != nil {
				tt.check(t, m)
			}
		})
	}
}

// Nobody can take a letter's id beforehand, whatever the id of another letter is; sent again, a letter is stored once.
func TestALettersIDCannotBeTaken(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	letter := func(seq uint64) {
		t.Helper()
		d := pubsub.Dead{Session: "s1", Stream: "AGENT_CMD", StreamSeq: seq, Subject: "agent.cmd.1.s1.prompt", Reason: "x"}
		if err := pubsub.PublishDead(bustest.Deadline(t), c.JetStream(), c.Subjects(), d); err != nil {
			t.Fatal(err)
		}
	}
	letter(1)
	id := deadLetters(t, c)[0].Header.Get(jetstream.MsgIDHeader)
	for _, guess := range []string{"AGENT_CMD:2", strings.Replace(id, "AGENT_CMD:1", "AGENT_CMD:2", 1)} {
		if _, err := c.JetStream().Publish(bustest.Deadline(t), c.Subjects().Dead("AGENT_CMD", "s9"), nil,
			jetstream.WithMsgID(guess)); err != nil {
			t.Fatal(err)
		}
	}
	letter(2)
	letter(2)
	if letters := deadLetters(t, c); len(letters) != 4 || letters[3].Header.Get(schemas.HeaderDeadStreamSeq) != "2" {
		t.Errorf("%d letters", len(letters))
	}
}
