package inbox

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/schemas"
)

// waiting is a handler whose functions are called while a session waits, and when its command is delivered.
type waiting struct {
	keeping
	wait    func()
	deliver func(cmd schemas.Command, entered func()) error
}

func (h waiting) Hold(ctx context.Context, _ string, waits func()) (
	holding context.Context, release func(), err error,
) {
	waits()
	h.wait()
	return ctx, func() {}, nil
}

func (h waiting) Deliver(_ context.Context, cmd schemas.Command, entered func()) error {
	return h.deliver(cmd, entered)
}

// stored puts a prompt into the inbox and returns the message as it is delivered.
func stored(t *testing.T, in *Inbox, text string) *reader.Message {
	t.Helper()
	msg := &nats.Msg{Subject: in.conn.Subjects().Command("s1", schemas.CommandPrompt), Data: []byte(text),
		Header: nats.Header{schemas.HeaderReply: {schemas.ReplyOutcome}, schemas.HeaderReplyTo: {"_INBOX.a"}, "X": {"y"}}}
	ack, err := in.conn.JetStream().PublishMsg(t.Context(), msg)
	if err != nil {
		t.Fatal(err)
	}
	return &reader.Message{Seq: ack.Sequence, Session: "s1", Body: &body{subject: msg.Subject, header: msg.Header,
		data: msg.Data, large: len(msg.Data) > largePayload}}
}

// TestLargeCommandsAreInMemoryOnce has a large command delivered: it is not in memory while its session waits, and
// after that neither its payload is nor, once it is stored, what was decoded. Its outcome can be sent all the same.
func TestLargeCommandsAreInMemoryOnce(t *testing.T) {
	t.Parallel()
	_, in := newInbox(t)
	in.name.Store(new("AGENT_CMD-1"))
	text := strings.Repeat("x", largePayload+1)
	m := stored(t, in, text)
	b := m.Body.(*body)
	var waited, delivered bool
	in.handler = waiting{
		wait: func() {
			if waited = true; !b.dropped || b.data != nil || b.header != nil {
				t.Error("the message is in memory while its session waits")
			}
		},
		deliver: func(cmd schemas.Command, entered func()) error {
			delivered = true
			prompt := cmd.Data.(*schemas.Prompt)
			if b.data != nil || len(b.header) != 2 {
				t.Errorf("the payload is in memory beside the command, with header %v", b.header)
			}
			if prompt.Text != text {
				t.Errorf("delivered with %d bytes", len(prompt.Text))
			}
			if entered(); prompt.Text != "" {
				t.Error("the content is in memory once it is stored")
			}
			if to, err := replyTo(b.header); err != nil || to != "_INBOX.a" {
				t.Errorf("outcome to %q: %v", to, err)
			}
			return nil
		},
	}
	if err := (handler{in}).Deliver(t.Context(), m, func() {}); err != nil || !waited || !delivered {
		t.Errorf("waited %v, delivered %v: %v", waited, delivered, err)
	}
}

// TestALargeCommandThatIsDeletedWhileItWaitsIsNotDelivered deletes a message while its session waits for memory.
func TestALargeCommandThatIsDeletedWhileItWaitsIsNotDelivered(t *testing.T) {
	t.Parallel()
	_, in := newInbox(t)
	m := stored(t, in, strings.Repeat("x", largePayload+1))
	in.handler = waiting{
		wait: func() {
			stream, err := in.conn.JetStream().Stream(t.Context(), schemas.StreamCommands)
			if err == nil {
				err = stream.DeleteMsg(t.Context(), m.Seq)
			}
			if err != nil {
				t.Error(err)
			}
		},
		deliver: func(schemas.Command, func()) error {
			t.Error("it was delivered")
			return nil
		},
	}
	if err := (handler{in}).Deliver(t.Context(), m, func() {}); err != nil {
		t.Error(err)
	}
}

// TestALargeCommandThatIsGivenUpIsKept gives up a command that was delivered: its dead letter has all of it.
func TestALargeCommandThatIsGivenUpIsKept(t *testing.T) {
	t.Parallel()
	_, in := newInbox(t)
	in.name.Store(new("AGENT_CMD-1"))
	m := stored(t, in, strings.Repeat("x", largePayload+1))
	in.handler = waiting{wait: func() {}, deliver: func(_ schemas.Command, entered func()) error {
		entered()
		return context.DeadlineExceeded
	}}
	if err := (handler{in}).Deliver(t.Context(), m, func() {}); err == nil {
		t.Fatal("it did not fail")
	}
	if err := (handler{in}).GiveUp(t.Context(), m, "it fails"); err != nil || !m.Rejected {
		t.Fatalf("given up: %v, rejected %v", err, m.Rejected)
	}
	dead, err := in.conn.JetStream().Stream(t.Context(), schemas.StreamDead)
	if err != nil {
		t.Fatal(err)
	}
	letter, err := dead.GetMsg(t.Context(), 1)
	if err != nil || len(letter.Data) != largePayload+1 {
		t.Errorf("dead letter with %d bytes: %v", len(letter.Data), err)
	}
}
