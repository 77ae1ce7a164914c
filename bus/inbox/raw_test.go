package inbox_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// A header that no library can read, of a message that had to wait and whose payload was let go, is no reason to keep
// the session waiting for ever.
func TestAHeaderThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, header := range []string{
		"NATS/1.0\r\nno colon\r\n\r\n", "NATS/1.0\r\na: b\r\n", "x\r\n\r\n", "NATS/1.0 1\r\n\r\n",
	} {
		t.Run(strings.TrimSpace(header), func(t *testing.T) {
			t.Parallel()
			server, c := bustest.Small(t)
			begun, rest := make(chan struct{}), make(chan struct{})
			h := fakeHandler{deliver: func(_ context.Context, cmd schemas.Command, entered func()) error {
				if textOf(cmd) == "first" {
					close(begun)
					<-rest
				}
				return nil
			}}
			bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
			bustest.Send(t, c, "s1", "first")
			bustest.Within(t, begun)
			bustest.PublishRaw(t, server, "agent.cmd.s1.tool_result", header, "{"+strings.Repeat(" ", 2000)+"}")
			bustest.Send(t, c, "s1", "behind it")
			bustest.Eventually(t, "both wait", func() bool { return bustest.Queued(t, c) == 3 })
			close(rest)
			bustest.Eventually(t, "the session goes on", func() bool { return slices.Contains(h.texts("s1"), "behind it") })
			bustest.Eventually(t, "nothing is left", func() bool { return bustest.Queued(t, c) == 0 })
		})
	}
}

// Subjects with characters that no session has are taken out of the inbox as well.
func TestSubjectsOfOddCharacters(t *testing.T) {
	t.Parallel()
	for _, session := range []string{"a\x7fb", "\x7f", "\xff", "a\x00b", "a\x01", strings.Repeat("x", 2000)} {
		t.Run(fmt.Sprintf("%.10q", session), func(t *testing.T) {
			t.Parallel()
			server, c := bustest.Small(t)
			var h fakeHandler
			bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
			for _, header := range []string{"x\r\n\r\n", "NATS/1.0\r\n\r\n", "x\r\n\r\n"} {
				bustest.PublishRaw(t, server, "agent.cmd."+session+".tool_result", header, "{}")
			}
			bustest.Send(t, c, "s1", "still there?")
			bustest.Eventually(t, "the runner reads on", func() bool { return slices.Contains(h.texts("s1"), "still there?") })
			bustest.Eventually(t, "nothing is left", func() bool { return bustest.Queued(t, c) == 0 })
			if dead := bustest.Messages(t, c, schemas.StreamDead); dead != 3 {
				t.Errorf("%d dead letters, want 3", dead)
			}
		})
	}
}

// What a server was made to deliver into the inbox it stores under the subject that it had, where it counts for the
// inbox's limit.
func TestWhatIsStoredUnderAnotherSubjectIsTakenOut(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var h fakeHandler
	bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	if _, err := c.JetStream().Publish(bustest.Deadline(t), "agent.live.s1.update", []byte("x")); err != nil {
		t.Fatal(err)
	}
	stream, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamUpdates)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.CreateConsumer(bustest.Deadline(t), jetstream.ConsumerConfig{Durable: "x"}); err != nil {
		t.Fatal(err)
	}
	err = c.NATS().PublishMsg(&nats.Msg{Subject: "$JS.API.CONSUMER.MSG.NEXT.AGENT_UPD.x", Reply: "agent.cmd.s1.prompt",
		Data: []byte(`{"batch":1,"expires":9000000000}`)})
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "it is a dead letter", func() bool { return bustest.Messages(t, c, schemas.StreamDead) == 1 })
	bustest.Eventually(t, "nothing is left", func() bool { return bustest.Queued(t, c) == 0 })
}

// Names of headers that nats.go reads and refuses to write are left out of dead letters: a message with such a name
// does not keep others waiting for ever.
func TestMessagesWithOddHeadersAreBuried(t *testing.T) {
	t.Parallel()
	server, c := bustest.Small(t)
	var h fakeHandler
	bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	names := []string{"X y", " a", "X ", "\u00e9", "a(b", "a\x01b", "", "Nats-Expected-Stream", "ce-id "}
	for _, name := range names {
		for _, kind := range []string{"tool_result", "nonsense"} {
			bustest.PublishRaw(t, server, "agent.cmd.s1."+kind, "NATS/1.0\r\n"+name+": z\r\nkept: y\r\n\r\n", "{}")
		}
	}
	bustest.Send(t, c, "s1", "still there?")
	bustest.Eventually(t, "all are settled", func() bool { return bustest.Queued(t, c) == 0 })
	if got := h.texts("s1"); !slices.Equal(got, []string{"still there?"}) {
		t.Errorf("delivered: %q", got)
	}
	if dead := lastDead(t, c, "s1"); dead.Header.Get("kept") != "y" {
		t.Errorf("the dead letter has the headers %v", dead.Header)
	}
}
