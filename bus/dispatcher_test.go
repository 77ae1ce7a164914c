package bus_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

func request(call schemas.CallKey) schemas.ToolRequest {
	return schemas.ToolRequest{Session: "s1", RunID: "r1", TurnID: "t1", Call: call, ToolCallID: "toolu_1",
		ToolName: "echo", Arguments: json.RawMessage(`{"a":"<b>"}`), StartSeq: 7,
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
}

func messages(t testing.TB, c *bus.Conn, stream string) uint64 {
	t.Helper()
	s, err := c.JetStream().Stream(deadline(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func TestDispatchStoresTheCall(t *testing.T) {
	c := newBus(t)
	want := request("c7")
	if err := bus.NewDispatcher(c).Dispatch(deadline(t), want, false); err != nil {
		t.Fatal(err)
	}
	s, err := c.JetStream().Stream(deadline(t), schemas.StreamTools)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := s.GetLastMsgForSubject(deadline(t), "agent.tool.echo.s1.c7")
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

func TestDispatchAgainStoresOnlyWhatIsNeitherWaitingNorAnswered(t *testing.T) {
	answer := func(t *testing.T, c *bus.Conn, call schemas.CallKey) {
		data, err := schemas.Marshal(schemas.ToolResponse{Call: call, ToolCallID: "toolu_1", ToolName: "echo",
			Result: schemas.TextResult("done")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.JetStream().Publish(deadline(t), c.Subjects().Command("s1", schemas.CommandToolResult), data); err != nil {
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
			if _, err := c.JetStream().Publish(deadline(t), c.Subjects().Tool("echo", "s1", "c7"), data); err != nil {
				t.Fatal(err)
			}
		}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newBus(t)
			tc.before(t, c)
			if err := bus.NewDispatcher(c).Dispatch(deadline(t), request("c7"), true); err != nil {
				t.Fatal(err)
			}
			if got := messages(t, c, schemas.StreamTools); got != tc.want {
				t.Errorf("%d calls are queued, want %d", got, tc.want)
			}
		})
	}
}

// TestDispatchGoesToTheQueueOfVersionAndWorkspace dispatches a call again, which looks for it in the same queue, and takes it
// back.
func TestDispatchGoesToTheQueueOfVersionAndWorkspace(t *testing.T) {
	c := newBus(t)
	d, req := bus.NewDispatcher(c), request("c7")
	req.Version, req.Workspace = "2", "host"
	for _, again := range []bool{false, true} {
		if err := d.Dispatch(deadline(t), req, again); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.JetStream().Stream(deadline(t), schemas.StreamTools)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetLastMsgForSubject(deadline(t), "agent.tool.echo=2=host.s1.c7"); err != nil || messages(t, c, schemas.StreamTools) != 1 {
		t.Errorf("%d calls are queued: %v", messages(t, c, schemas.StreamTools), err)
	}
	if err := d.Withdraw(deadline(t), "s1", "c7"); err != nil || messages(t, c, schemas.StreamTools) != 0 {
		t.Errorf("%d calls are left: %v", messages(t, c, schemas.StreamTools), err)
	}
}

func TestDispatchRefusesWhatIsNoSubject(t *testing.T) {
	c := newBus(t)
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
		if err := bus.NewDispatcher(c).Dispatch(deadline(t), r, false); !errors.Is(err, schemas.ErrSubject) {
			t.Errorf("%s %s %s: %v, want ErrSubject", r.ToolName, r.Session, r.Call, err)
		}
	}
}

func TestCancelIsHeard(t *testing.T) {
	c := newBus(t)
	sub, err := c.NATS().SubscribeSync("agent.cancel.s1.*")
	if err != nil {
		t.Fatal(err)
	}
	d := bus.NewDispatcher(c)
	if err := d.Cancel(deadline(t), "s1", "c7"); err != nil {
		t.Fatal(err)
	}
	msg, err := sub.NextMsg(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if msg.Subject != "agent.cancel.s1.c7" {
		t.Errorf("subject %s", msg.Subject)
	}
	if err := d.Cancel(deadline(t), "s 1", "c7"); !errors.Is(err, schemas.ErrSubject) {
		t.Errorf("illegal session: %v", err)
	}
}

// TestDispatchWaitsForTheServer dispatches while the server is away: the call is sent once, when the server is back.
func TestDispatchWaitsForTheServer(t *testing.T) {
	addr, start := restartable(t)
	s := start()
	c, err := bus.Connect(deadline(t), bus.ConnOptions{URL: "nats://" + addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := bus.Setup(deadline(t), c, bus.StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	eventually(t, "the connection is down", func() bool { return !c.Connected() })
	dispatched := make(chan error, 1)
	go func() { dispatched <- bus.NewPatientDispatcher(c).Dispatch(deadline(t), request("t7"), false) }()
	start()
	if err := <-dispatched; err != nil {
		t.Fatal(err)
	}
	if n := messages(t, c, schemas.StreamTools); n != 1 {
		t.Errorf("%d calls are stored, want 1", n)
	}
}

func TestWithdrawTakesOneCallOutOfTheQueue(t *testing.T) {
	c := newBus(t)
	d := bus.NewDispatcher(c)
	for _, call := range []schemas.CallKey{"c7", "c8"} {
		if err := d.Dispatch(deadline(t), request(call), false); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time there is nothing
		if err := d.Withdraw(deadline(t), "s1", "c7"); err != nil {
			t.Error(err)
		}
	}
	stream, err := c.JetStream().Stream(deadline(t), schemas.StreamTools)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.GetLastMsgForSubject(deadline(t), "agent.tool.echo.s1.c8"); err != nil || messages(t, c, schemas.StreamTools) != 1 {
		t.Errorf("%d calls are left, want c8: %v", messages(t, c, schemas.StreamTools), err)
	}
	if err := d.Withdraw(deadline(t), "s1", "c*"); err == nil {
		t.Error("a pattern was taken for a call")
	}
}
