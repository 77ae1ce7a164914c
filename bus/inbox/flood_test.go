package inbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/schemas"
)

// sendLarge stores prompts of a megabyte.
func sendLarge(t *testing.T, c *bus.Conn, n int) {
	t.Helper()
	data := bytes.Repeat([]byte("x"), 1_000_000)
	for range n {
		if _, err := c.JetStream().Publish(bustest.Deadline(t), "agent.cmd.s1.prompt", data); err != nil {
			t.Fatal(err)
		}
	}
}

// A server ends a connection for which it has more than 64 MiB. What waits in the inbox may be more than that. Three
// requests for messages may wait for their answers at once.
func TestLargeMessagesDoNotCostTheConnection(t *testing.T) {
	suite.LongForm(t)
	t.Parallel()
	const many = 75 // of a megabyte
	server, c := bustest.Small(t)
	sendLarge(t, c, many)
	own := bustest.Connect(t, server)
	asked, err := c.NATS().SubscribeSync("$JS.API.CONSUMER.MSG.NEXT.AGENT_CMD.>")
	if err == nil {
		err = c.NATS().Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	var h fakeHandler
	in, _ := bustest.RunInbox(t, own, bustest.Fast("r1"), &h)
	bustest.Send(t, c, "s2", "hi")
	bustest.Eventually(t, "the other session is served", func() bool { return len(h.texts("s2")) == 1 })
	bustest.Eventually(t, "all are refused", func() bool { return bustest.Queued(t, c) == 0 && in.InFlight() == 0 })
	refused := map[uint64]bool{} // a rejection may be recorded again
	for _, r := range h.rejections() {
		refused[r.StreamSeq] = true
	}
	if len(refused) != many {
		t.Errorf("%d were refused, want %d", len(refused), many)
	}
	for first := true; ; first = false {
		m, err := asked.NextMsg(10 * time.Millisecond)
		if err != nil {
			if first {
				t.Error("no request for messages was seen")
			}
			break
		}
		var request struct {
			MaxBytes int `json:"max_bytes"`
		}
		if err := json.Unmarshal(m.Data, &request); err != nil || request.MaxBytes < 1<<20 || request.MaxBytes > 64<<20/3 {
			t.Errorf("%s: %v", m.Data, err)
		}
	}
	if n := own.NATS().Stats().Reconnects; n != 0 {
		t.Errorf("the connection was lost %d times", n)
	}
	if n := bustest.Messages(t, c, schemas.StreamDead); n != many {
		t.Errorf("%d dead letters, want %d", n, many)
	}
}

// What no consumer is given is looked for in rounds, each of which goes on where the one before has ended.
func TestARoundOfLookingIsBounded(t *testing.T) {
	t.Parallel()
	const many = 40
	_, c := bustest.Small(t)
	sendLarge(t, c, many)
	if _, err := c.JetStream().Publish(bustest.Deadline(t), "agent.cmd.s1.prompt\x7f", nil); err != nil {
		t.Fatal(err)
	}
	bustest.Send(t, c, "s1", "behind it")
	in, err := inbox.New(c, bustest.Fast("r1"))
	if err != nil {
		t.Fatal(err)
	}
	var before uint64
	for round := 1; ; round++ {
		next, err := in.Sweep(bustest.Deadline(t))
		if err != nil || next <= before {
			t.Fatalf("round %d: from %d to %d, %v", round, before, next, err)
		}
		if round == 1 && next > many {
			t.Errorf("the first round went to %d", next)
		}
		if before = next; next > many+2 {
			break
		}
	}
	if n := bustest.Queued(t, c); n != many+1 {
		t.Errorf("%d messages are left, want all but the one that no consumer delivers", n)
	}
}

// forgetful is a handler that knows no session but s1.
type forgetful struct {
	fakeHandler
	mu    sync.Mutex
	asked map[string]int
}

func (h *forgetful) Absent(_ context.Context, session string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked[session]++
	return session != "s1"
}

// A command without an id, of which nobody waits for the outcome, is anonymous.
func TestAnonymousCommands(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var mu sync.Mutex
	got := map[string]bool{}
	h := &fakeHandler{deliver: func(_ context.Context, cmd schemas.Command, _ func()) error {
		mu.Lock()
		defer mu.Unlock()
		got[cmd.Session] = cmd.Anonymous
		return nil
	}}
	bustest.RunInbox(t, c, bustest.Fast("r1"), h)
	for _, m := range []*nats.Msg{
		{Subject: "agent.cmd.anonymous.abort"},
		{Subject: "agent.cmd.named.abort", Header: nats.Header{"Nats-Msg-Id": {"mine"}}},
		{Subject: "agent.cmd.awaited.abort", Header: nats.Header{
			schemas.HeaderReply: {schemas.ReplyOutcome}, schemas.HeaderReplyTo: {"_INBOX.me.1"}}},
	} {
		m.Data = []byte("{}")
		if _, err := c.JetStream().PublishMsg(bustest.Deadline(t), m); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Eventually(t, "nothing is left", func() bool { return bustest.Queued(t, c) == 0 })
	mu.Lock()
	defer mu.Unlock()
	if want := map[string]bool{"anonymous": true, "named": false, "awaited": false}; !maps.Equal(got, want) {
		t.Errorf("anonymous: %v, want %v", got, want)
	}
}

// A result for a session that has no log is acknowledged after one look: it is not delivered, and kept nowhere. Any
// other command is delivered, for a session comes into being with it.
func TestAResultWithoutALogCostsALook(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	h := &forgetful{asked: map[string]int{}}
	bustest.RunInbox(t, c, bustest.Fast("r1"), h)
	const many = 20
	result := []byte(`{"call":"c1","content":[{"type":"text","text":"x"}]}`)
	for i := range many {
		for _, data := range [][]byte{result, []byte("{")} {
			subject := fmt.Sprintf("agent.cmd.none%d.tool_result", i)
			if _, err := c.JetStream().Publish(bustest.Deadline(t), subject, data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := c.JetStream().Publish(bustest.Deadline(t), "agent.cmd.s1.tool_result", result); err != nil {
		t.Fatal(err)
	}
	bustest.Send(t, c, "none0", "hi")
	bustest.Eventually(t, "nothing is left", func() bool { return bustest.Queued(t, c) == 0 })
	if h.total() != 1 || len(h.texts("none0")) != 1 {
		t.Errorf("%d messages came to the handler: %+v", h.total(), h.got)
	}
	// The message for s1 is no result. A toolworker, which may send results to every session, must not fill its log.
	if n := len(h.rejections()); n != 0 {
		t.Errorf("%d rejections are recorded", n)
	}
	if n := bustest.Messages(t, c, schemas.StreamDead); n != 1 {
		t.Errorf("%d dead letters", n)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for session, n := range h.asked {
		if session != "s1" && n != 2 {
			t.Errorf("session %s was looked for %d times for two results", session, n)
		}
	}
}
