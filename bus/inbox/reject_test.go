package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// isStoredID reports whether an id is that of a command that has none of its own, and this sequence.
func isStoredID(t *testing.T, c *bus.Conn, id string, seq uint64) bool {
	t.Helper()
	name, err := streams.InboxName(bustest.Deadline(t), c)
	if err != nil || !strings.HasPrefix(name, schemas.TimedInbox) {
		t.Fatalf("the inbox has the name %q, %v", name, err)
	}
	return strings.HasPrefix(id, fmt.Sprintf("cmd-%s-%d-", name, seq))
}

func TestInboxRejectsWhatIsNoCommand(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind   string
		header nats.Header
		data   string
		code   schemas.RejectCode
		id     string // "" if it is that of the place where the command is stored
	}{
		"malformed JSON":   {"abort", nil, `{"reason":`, schemas.RejectInvalid, ""},
		"plain text":       {"abort", nil, "please", schemas.RejectNotPlain, ""},
		"an unknown kind":  {"dance", nil, `{}`, schemas.RejectUnknown, ""},
		"too large":        {"prompt", nil, strings.Repeat("x", 512<<10+1), schemas.RejectTooLarge, ""},
		"the sender's id":  {"abort", nats.Header{"Nats-Msg-Id": {"mine"}}, "please", schemas.RejectNotPlain, "mine"},
		"an id of ours":    {"prompt", nats.Header{"Nats-Msg-Id": {"cmd-7"}}, "hi", schemas.RejectInvalid, ""},
		"an empty payload": {"abort", nil, "", schemas.RejectInvalid, ""},
		"a broken CloudEvent": {"prompt", nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"x"}}, `{}`,
			schemas.RejectCloudEvent, "x"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, c := bustest.Small(t)
			var h fakeHandler
			bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
			msg := &nats.Msg{Subject: "agent.cmd.s1." + tc.kind, Header: tc.header, Data: []byte(tc.data)}
			if _, err := c.JetStream().PublishMsg(bustest.Deadline(t), msg); err != nil {
				t.Fatal(err)
			}
			bustest.Eventually(t, "it is acknowledged", func() bool { return bustest.Queued(t, c) == 0 })
			r := h.rejections()
			if len(r) == 1 && tc.id == "" && isStoredID(t, c, r[0].CommandID, 1) {
				tc.id = r[0].CommandID
			}
			if len(r) != 1 || r[0].Code != tc.code || r[0].CommandID != tc.id || string(r[0].Kind) != tc.kind ||
				r[0].StreamSeq != 1 || r[0].Reason == "" {
				t.Errorf("rejections: %+v", r)
			}
			want := tc.data
			if tc.code == schemas.RejectTooLarge {
				want = want[:64<<10]
			}
			if dead := lastDead(t, c, "s1"); string(dead.Data) != want {
				t.Errorf("the dead letter differs from what was sent")
			}
			if h.total() != 0 {
				t.Error("it was delivered as well")
			}
		})
	}
}

func TestInboxKeepsWhatHasNoLegalSession(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var h fakeHandler
	bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	if _, err := c.JetStream().Publish(bustest.Deadline(t), "agent.cmd.s$1.prompt", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "it is acknowledged", func() bool { return bustest.Queued(t, c) == 0 })
	if len(h.rejections()) != 0 || h.total() != 0 {
		t.Error("a session that cannot exist was told")
	}
	if dead := lastDead(t, c, schemas.NoSession); string(dead.Data) != "hello" {
		t.Errorf("dead letter %q", dead.Data)
	}
}

func TestInboxRejectsAgainUntilTheSessionIsTold(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var tries atomic.Int32
	h := fakeHandler{reject: func(string, schemas.CommandRejected) error {
		if tries.Add(1) == 1 {
			return errors.New("the log is away")
		}
		return nil
	}}
	bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	if _, err := c.JetStream().Publish(bustest.Deadline(t), "agent.cmd.s1.abort", []byte("no")); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "it is acknowledged", func() bool { return bustest.Queued(t, c) == 0 })
	if got := len(h.rejections()); got != 1 || tries.Load() != 2 {
		t.Errorf("told %d times in %d tries", got, tries.Load())
	}
}

// A rejected message may have headers of 64 KiB, and its dead letter has headers of its own: it has to be stored all
// the same, as the message stays in front of all that is sent to its session.
func TestMessagesWithLargeHeadersAreBuried(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var h fakeHandler
	bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	for _, size := range []int{33_000, 60_000, 65_300} {
		for _, kind := range []string{"tool_result", "steer", "nonsense"} {
			for _, name := range []string{"X", "ce-source", "Nats-Msg-Id"} {
				publish(t, c.JetStream(), &nats.Msg{Subject: "agent.cmd.s1." + kind, Data: []byte(`{"text":5}`),
					Header: nats.Header{name: {kind + strings.Repeat("x", size)}}})
			}
		}
	}
	bustest.Send(t, c, "s1", "still there?")
	bustest.Eventually(t, "all are settled", func() bool { return bustest.Queued(t, c) == 0 })
	if got := h.texts("s1"); !slices.Equal(got, []string{"still there?"}) {
		t.Errorf("delivered: %q", got)
	}
}

// A dead letter that its stream refuses is stored without what the message says.
func TestDeadLettersThatAreRefusedAreShort(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	dead, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamDead)
	if err != nil {
		t.Fatal(err)
	}
	config := dead.CachedInfo().Config
	config.MaxMsgSize = 4 << 10
	if _, err := c.JetStream().UpdateStream(bustest.Deadline(t), config); err != nil {
		t.Fatal(err)
	}
	var h fakeHandler
	bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	publish(t, c.JetStream(), &nats.Msg{Subject: "agent.cmd.s1.nonsense", Data: []byte(strings.Repeat("x", 8<<10)),
		Header: nats.Header{"Kept": {"y"}}})
	bustest.Send(t, c, "s1", "still there?")
	bustest.Eventually(t, "all are settled", func() bool { return bustest.Queued(t, c) == 0 })
	letter := lastDead(t, c, "s1")
	if got := letter.Header.Get(schemas.HeaderDeadSize); got != "8192" || len(letter.Data) != 0 {
		t.Errorf("the letter has %d bytes, and says %q", len(letter.Data), got)
	}
}

// A command with thousands of headers is rejected, whether it is delivered at once or read again.
func TestCommandsWithManyHeadersAreRejected(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	bustest.Setup(t, c, streams.Options{})
	release := make(chan struct{})
	h := fakeHandler{deliver: func(context.Context, schemas.Command, func()) error { <-release; return nil }}
	bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	bustest.Send(t, c, "s1", "first")
	bustest.Eventually(t, "the first is delivered", func() bool { return h.total() == 1 })
	for _, session := range []string{"s1", "s2"} { // what waits behind the first is read again
		m := &nats.Msg{Subject: "agent.cmd." + session + ".prompt", Data: []byte("x"), Header: nats.Header{}}
		for n := range 5_000 {
			m.Header[strconv.Itoa(n)] = []string{strings.Repeat("v", 4)}
		}
		publish(t, c.JetStream(), m)
	}
	close(release)
	bustest.Eventually(t, "all are settled", func() bool { return bustest.Queued(t, c) == 0 })
	for _, r := range h.rejections() {
		if r.Code != schemas.RejectInvalid || !strings.Contains(r.Reason, "headers") {
			t.Errorf("rejected %+v", r)
		}
	}
	if n := len(h.rejections()); n != 2 || h.total() != 1 {
		t.Errorf("%d rejected and %d delivered", n, h.total())
	}
}

// Whatever is sent, every message is answered, and the runner works on.
func TestInboxTakesRandomBytes(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var h fakeHandler
	in, _ := bustest.RunInbox(t, c, inbox.Options{RunnerID: "r1"}, &h)
	const messages = 3_000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	kinds := []string{"abort", "prompt", "steer", "tool_result", "timer", "set_model", "nonsense"}
	headers := []nats.Header{nil, {"ce-specversion": {"1.0"}}, {"Content-Type": {"application/cloudevents+json"}}}
	for i := range messages {
		data := make([]byte, random.IntN(200))
		for j := range data {
			data[j] = byte(random.Uint32())
		}
		msg := &nats.Msg{Subject: fmt.Sprintf("agent.cmd.s%d.%s", i%32, kinds[random.IntN(len(kinds))]),
			Header: headers[random.IntN(len(headers))], Data: data}
		if _, err := c.JetStream().PublishMsgAsync(msg); err != nil {
			t.Fatal(err)
		}
		if i%500 == 0 {
			<-c.JetStream().PublishAsyncComplete()
		}
	}
	<-c.JetStream().PublishAsyncComplete()
	bustest.Eventually(t, "every message is answered",
		func() bool { return bustest.Queued(t, c) == 0 && in.InFlight() == 0 })
	if n := bustest.Messages(t, c, schemas.StreamDead); len(h.rejections()) == 0 || h.total()+int(n) < messages {
		t.Errorf("%d were delivered, %d are dead letters, of %d", h.total(), n, messages)
	}
	before := h.total()
	bustest.Send(t, c, "s1", "still there?")
	bustest.Eventually(t, "the runner works on", func() bool { return h.total() == before+1 })
}

func TestInboxStopsPullingWhenItsHandsAreFull(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	rest := make(chan struct{})
	h := fakeHandler{deliver: func(_ context.Context, _ schemas.Command, entered func()) error {
		entered()
		<-rest
		return nil
	}}
	o := undisturbed("r1")
	o.MaxInFlight = 24
	in, _ := bustest.RunInbox(t, c, o, &h)
	const sent = 100
	for range sent {
		bustest.Send(t, c, "s1", "x")
	}
	bustest.Eventually(t, "as much as there is room for", func() bool { return h.total() > 1 })
	if got := in.InFlight(); got > o.MaxInFlight {
		t.Errorf("%d in flight, %d allowed", got, o.MaxInFlight)
	}
	close(rest)
	bustest.Eventually(t, "the queue is empty", func() bool { return bustest.Queued(t, c) == 0 })
	if got := h.total(); got != sent {
		t.Errorf("%d delivered, %d sent", got, sent)
	}
}

func TestInboxOptionsAreChecked(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	_, err := inbox.New(c, inbox.Options{RunnerID: "a.b", Takeover: 1, MaxInFlight: -1})
	for _, want := range []string{"a.b", "takeover", "max in flight"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %q", err, want)
		}
	}
}

func TestInboxMakesAConsumerThatSomebodyDeleted(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var h fakeHandler
	bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	bustest.Send(t, c, "s1", "before")
	bustest.Eventually(t, "delivery", func() bool { return h.total() == 1 })
	for _, name := range consumers(t, c) {
		if err := c.JetStream().DeleteConsumer(bustest.Deadline(t), schemas.StreamCommands, name); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Send(t, c, "s1", "after")
	bustest.Eventually(t, "delivery", func() bool { return h.total() == 2 })
}

// consumers are the names of the inbox's consumers.
func consumers(t testing.TB, c *bus.Conn) (names []string) {
	t.Helper()
	s, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamCommands)
	if err != nil {
		t.Fatal(err)
	}
	list := s.ConsumerNames(bustest.Deadline(t))
	for name := range list.Name() {
		names = append(names, name)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

// TestTheSameFailureIsLoggedOnce has a session fail in the same way at each delivery, as one with a damaged log does,
// and another one in two ways.
func TestTheSameFailureIsLoggedOnce(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	o := bustest.Fast("r1")
	o.MaxDeliver = 4
	var log lockedBuffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	var tries atomic.Int64
	h := fakeHandler{deliver: func(_ context.Context, cmd schemas.Command, _ func()) error {
		if cmd.Session == "s2" {
			return fmt.Errorf("cause %d", min(tries.Add(1), 2))
		}
		return errors.New("log damaged")
	}}
	bustest.RunInbox(t, c, o, &h)
	for range 3 {
		bustest.Send(t, c, "s1", "go")
	}
	bustest.Send(t, c, "s2", "go")
	bustest.Eventually(t, "all are given up", func() bool { return len(h.rejections()) == 4 })
	for line, want := range map[string]int{"session=s1": 1, "session=s2": 2, "log damaged": 1, "cause 1": 1,
		"cause 2": 1} {
		if n := log.lines("delivery failed", line); n != want {
			t.Errorf("%d lines with %q, want %d:\n%s", n, line, want, log.String())
		}
	}
}

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// lines counts the lines that have both texts.
func (b *lockedBuffer) lines(one, other string) (n int) {
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, one) && strings.Contains(line, other) {
			n++
		}
	}
	return n
}
