package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

func request(call schemas.CallKey) schemas.ToolRequest {
	return schemas.ToolRequest{Session: "s1", RunID: "r1", TurnID: "t1", Call: call, ToolCallID: "toolu_1",
		ToolName: "echo", Arguments: json.RawMessage(`{"a":"<b>"}`), StartSeq: 7,
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
}

func TestDispatchStoresTheCall(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	want := request("c7")
	if err := dispatch.New(c).Dispatch(bustest.Deadline(t), want, false); err != nil {
		t.Fatal(err)
	}
	s, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamTools)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := s.GetLastMsgForSubject(bustest.Deadline(t), "agent.tool.echo.s1.c7")
	if err != nil {
		t.Fatal(err)
	}
	var got schemas.ToolRequest
	if err := json.Unmarshal(msg.Data, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("request (-want +got):\n%s", d)
	}
	if got := msg.Header.Get("Nats-Msg-Id"); got != "s1/c7" {
		t.Errorf("message id %q", got)
	}
	if got := msg.Header.Get("traceparent"); got != want.TraceParent {
		t.Errorf("traceparent %q", got)
	}
}

// pretend puts four messages on the subject of a call that are not the call: a server's refusal, which has no payload,
// JSON, and requests with another nonce. It puts a result of another call into the inbox.
func pretend(t *testing.T, c *bus.Conn, call schemas.CallKey, nonce string) {
	t.Helper()
	other := request(call)
	other.Nonce = nonce
	data, err := schemas.Marshal(other)
	if err != nil {
		t.Fatal(err)
	}
	for _, payload := range [][]byte{nil, []byte("{}"), data, data} {
		if _, err := c.JetStream().Publish(bustest.Deadline(t), c.Subjects().Tool("echo", "s1", string(call)),
			payload); err != nil {
			t.Fatal(err)
		}
	}
	result, err := schemas.Marshal(other.Answer("w1", schemas.TextResult("done"), false, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.JetStream().Publish(bustest.Deadline(t), c.Subjects().Command("s1", schemas.CommandToolResult),
		result); err != nil {
		t.Fatal(err)
	}
}

func TestDispatchAgainStoresOnlyWhatIsNeitherWaitingNorAnswered(t *testing.T) {
	t.Parallel()
	answer := func(t *testing.T, c *bus.Conn, call schemas.CallKey) {
		data, err := schemas.Marshal(schemas.ToolResponse{Call: call, ToolCallID: "toolu_1", ToolName: "echo",
			Result: schemas.TextResult("done")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.JetStream().Publish(bustest.Deadline(t), c.Subjects().Command("s1", schemas.CommandToolResult),
			data); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		before func(t *testing.T, c *bus.Conn)
		want   uint64 // calls in the queue
	}{
		"never dispatched":             {func(*testing.T, *bus.Conn) {}, 1},
		"another call is answered":     {func(t *testing.T, c *bus.Conn) { answer(t, c, "c8") }, 1},
		"answered":                     {func(t *testing.T, c *bus.Conn) { answer(t, c, "c7") }, 0},
		"answered, after another call": {func(t *testing.T, c *bus.Conn) { answer(t, c, "c6"); answer(t, c, "c7") }, 0},
		"waiting": {func(t *testing.T, c *bus.Conn) {
			// Not by its message id: that is forgotten after the duplicate window.
			data, _ := json.Marshal(request("c7"))
			if _, err := c.JetStream().Publish(bustest.Deadline(t), c.Subjects().Tool("echo", "s1", "c7"), data); err != nil {
				t.Fatal(err)
			}
		}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := bustest.New(t)
			tc.before(t, c)
			if err := dispatch.New(c).Dispatch(bustest.Deadline(t), request("c7"), true); err != nil {
				t.Fatal(err)
			}
			if got := bustest.Messages(t, c, schemas.StreamTools); got != tc.want {
				t.Errorf("%d calls are queued, want %d", got, tc.want)
			}
		})
	}
}

// Two runners dispatch a call, each in a span of its own: it is one call.
func TestACallOfTwoRunnersIsOne(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	for _, again := range []bool{false, true} {
		for _, span := range []string{"1111111111111111", "2222222222222222"} {
			req := request("c7")
			req.Nonce, req.TraceParent = "ours", "00-4bf92f3577b34da6a3ce929d0e0e4736-"+span+"-01"
			if err := dispatch.New(c).Dispatch(bustest.Deadline(t), req, again); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := bustest.Messages(t, c, schemas.StreamTools); got != 1 {
		t.Errorf("%d calls are queued, want 1", got)
	}
}

// A call waits for an approval, and a process that does not know it dispatches it. In the meantime others have sent
// messages with its key and without its nonce.
func TestWhatOthersHaveSentIsNotTheCall(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	ours := request("c7")
	ours.Nonce = "ours"
	for _, want := range []uint64{5, 9} { // in the second round the call waits between theirs
		pretend(t, c, "c7", "theirs")
		if err := dispatch.New(c).Dispatch(bustest.Deadline(t), ours, true); err != nil {
			t.Fatal(err)
		}
		if got := bustest.Messages(t, c, schemas.StreamTools); got != want {
			t.Errorf("%d messages are queued, want %d", got, want)
		}
	}
}

// TestDispatchGoesToTheQueueOfVersionAndWorkspace dispatches a call again, which looks for it in the same queue, and
// withdraws it.
func TestDispatchGoesToTheQueueOfVersionAndWorkspace(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	d, req := dispatch.New(c), request("c7")
	req.Version, req.Workspace = "2", "host"
	for _, again := range []bool{false, true} {
		if err := d.Dispatch(bustest.Deadline(t), req, again); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamTools)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetLastMsgForSubject(bustest.Deadline(t), "agent.tool.echo=2=host.s1.c7"); err != nil ||
		bustest.Messages(t, c, schemas.StreamTools) != 1 {
		t.Errorf("%d calls are queued: %v", bustest.Messages(t, c, schemas.StreamTools), err)
	}
	if err := d.Withdraw(bustest.Deadline(t), "s1", "c7"); err != nil || bustest.Messages(t, c, schemas.StreamTools) != 0 {
		t.Errorf("%d calls are left: %v", bustest.Messages(t, c, schemas.StreamTools), err)
	}
}

func TestDispatchRefusesWhatIsNoSubject(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	for _, change := range []func(*schemas.ToolRequest){
		func(r *schemas.ToolRequest) { r.ToolName = "no.token" },
		func(r *schemas.ToolRequest) { r.ToolName = "" },
		func(r *schemas.ToolRequest) { r.Version = "1.2" },
		func(r *schemas.ToolRequest) { r.Workspace = "a=b" },
		func(r *schemas.ToolRequest) { r.Session = "*" },
		func(r *schemas.ToolRequest) { r.Call = ">" },
	} {
		r := request("c7")
		change(&r)
		if err := dispatch.New(c).Dispatch(bustest.Deadline(t), r, false); !errors.Is(err, schemas.ErrSubject) {
			t.Errorf("%s %s %s: %v, want ErrSubject", r.ToolName, r.Session, r.Call, err)
		}
	}
}

func TestCancelIsHeard(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	sub, err := c.NATS().SubscribeSync("agent.cancel.s1.*")
	if err != nil {
		t.Fatal(err)
	}
	d := dispatch.New(c)
	if err := d.Cancel(bustest.Deadline(t), "s1", "c7", "n1"); err != nil {
		t.Fatal(err)
	}
	msg, err := sub.NextMsg(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if msg.Subject != "agent.cancel.s1.c7" || string(msg.Data) != schemas.Cancellation("n1") {
		t.Errorf("subject %s, payload %q", msg.Subject, msg.Data)
	}
	if err := d.Cancel(bustest.Deadline(t), "s 1", "c7", ""); !errors.Is(err, schemas.ErrSubject) {
		t.Errorf("illegal session: %v", err)
	}
}

// TestDispatchWaitsForTheServer dispatches while the server is away: the call is sent once, when the server is back.
func TestDispatchWaitsForTheServer(t *testing.T) {
	t.Parallel()
	addr, start := bustest.Restartable(t)
	s := start()
	c, err := bus.Connect(bustest.Deadline(t), bus.ConnOptions{URL: "nats://" + addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := streams.Setup(bustest.Deadline(t), c, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	bustest.Eventually(t, "the connection is down", func() bool { return !c.Events().Conn().IsConnected() })
	dispatched := make(chan error, 1)
	go func() { dispatched <- dispatch.NewPatient(c).Dispatch(bustest.Deadline(t), request("t7"), false) }()
	start()
	if err := <-dispatched; err != nil {
		t.Fatal(err)
	}
	if n := bustest.Messages(t, c, schemas.StreamTools); n != 1 {
		t.Errorf("%d calls are stored, want 1", n)
	}
}

// A call whose acknowledgement is lost may be with a worker. It is not sent again.
func TestACallIsSentOnceIfItsAcknowledgementIsLost(t *testing.T) {
	t.Parallel()
	c := bustest.Dial(t, bus.ConnOptions{InProcess: bustest.Server(t)}) // without streams
	sent := 0
	_, err := c.NATS().Subscribe("agent.tool.>", func(*nats.Msg) { sent++ })
	if err == nil {
		err = c.NATS().FlushTimeout(time.Minute)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = dispatch.NewHasty(c).Dispatch(bustest.Deadline(t), request("t7"), false)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := c.NATS().Drain(); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "all has come", c.NATS().IsClosed)
	if sent != 1 {
		t.Errorf("sent %d times", sent)
	}
}

func TestWithdrawTakesOneCallOutOfTheQueue(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	d := dispatch.New(c)
	for _, call := range []schemas.CallKey{"c7", "c8"} {
		if err := d.Dispatch(bustest.Deadline(t), request(call), false); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time there is nothing
		if err := d.Withdraw(bustest.Deadline(t), "s1", "c7"); err != nil {
			t.Error(err)
		}
	}
	stream, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamTools)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.GetLastMsgForSubject(bustest.Deadline(t), "agent.tool.echo.s1.c8"); err != nil ||
		bustest.Messages(t, c, schemas.StreamTools) != 1 {
		t.Errorf("%d calls are left, want c8: %v", bustest.Messages(t, c, schemas.StreamTools), err)
	}
	if err := d.Withdraw(bustest.Deadline(t), "s1", "c*"); err == nil {
		t.Error("a pattern was taken for a call")
	}
}
