package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/schemas"
)

// answering is a caller, and its calls as workers see them.
type answering struct {
	t        *testing.T
	server   *nats.Conn // of the workers
	conn     *bus.Conn  // of the caller
	caller   *dispatch.Caller
	requests chan *nats.Msg
	ctx      context.Context // of the calls
	stop     context.CancelFunc
}

func newAnswering(t *testing.T) *answering {
	t.Helper()
	s, _ := bustest.Small(t)
	dial := func() *bus.Conn { return bustest.Dial(t, bus.ConnOptions{URL: s.ClientURL(), Name: t.Name()}) }
	worker, c := dial(), dial()
	ctx, stop := context.WithCancel(bustest.Deadline(t))
	t.Cleanup(stop)
	a := &answering{t, worker.NATS(), c, newCaller(t, c), make(chan *nats.Msg, 1000), ctx, stop}
	_, err := a.server.ChanSubscribe("agent.tool.>", a.requests)
	if err == nil {
		err = a.server.Flush() // calls leave by another connection
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// ended is how a call ended.
type ended struct {
	response *schemas.ToolResponse
	err      error
}

// begin begins a call, and returns how it will end.
func (a *answering) begin(tool string) <-chan ended {
	end := make(chan ended, 1)
	go func() {
		response, err := a.caller.Call(a.ctx, "x1", schemas.ToolDefinition{Name: tool}, json.RawMessage(`{}`), nil)
		end <- ended{response, err}
	}()
	return end
}

// request returns the next request.
func (a *answering) request() schemas.ToolRequest {
	a.t.Helper()
	req, err := schemas.ParseToolRequest(bustest.Within(a.t, a.requests).Data)
	if err != nil {
		a.t.Fatal(err)
	}
	return req
}

func (a *answering) call(tool string) (schemas.ToolRequest, <-chan ended) {
	a.t.Helper()
	end := a.begin(tool)
	return a.request(), end
}

// answer sends the answer to a request to a subject.
func (a *answering) answer(to string, req schemas.ToolRequest, text string) {
	a.t.Helper()
	data, err := schemas.Marshal(req.Answer("w1", schemas.TextResult(text), false, 0))
	if err == nil {
		err = a.server.Publish(to, data)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *answering) wantText(what string, end <-chan ended, want string) {
	a.t.Helper()
	if got := bustest.Within(a.t, end); got.err != nil || got.response.Result.Content.JoinText() != want {
		a.t.Errorf("%s: %+v", what, got)
	}
}

// A worker of one tool knows where answers of its own calls are sent. It cannot answer the calls of other tools, nor
// keep their answers away.
func TestAWorkerAnswersItsOwnCallsOnly(t *testing.T) {
	t.Parallel()
	a := newAnswering(t)
	own, ownEnded := a.call("mine")
	other, otherEnded := a.call("bash")
	before := a.conn.NATS().Stats().InMsgs
	for range 100 {
		for _, nonce := range []string{"", own.Nonce, schemas.NoNonce} {
			forged := other
			forged.Nonce = nonce
			for _, token := range []string{string(other.Call), own.Nonce} {
				a.answer(a.conn.Subjects().Reply("x1", token), forged, "forged")
			}
		}
	}
	if got := bustest.Within(t, ownEnded); got.err == nil || !strings.Contains(got.err.Error(), "tool mine") {
		t.Errorf("the call that was answered wrongly: %+v", got)
	}
	select {
	case got := <-otherEnded:
		t.Errorf("the call of bash: %+v", got)
	default:
	}
	if n := dispatch.Answers(a.caller)["mine"].Stats().InMsgs; n > 16 {
		t.Errorf("%d messages came, most of them for nobody", n)
	}
	a.answer(other.ReplyTo, other, "true")
	a.wantText("the call of bash", otherEnded, "true")
	if n := dispatch.Answers(a.caller)["bash"].Stats().InMsgs; n != 1 {
		t.Errorf("%d messages came with the answer of bash", n)
	}
	if n := a.conn.NATS().Stats().InMsgs - before; n > 20 {
		t.Errorf("%d messages came on the connection of everything else", n)
	}
}

// Only workers of the call's tool know where its answer is sent. What one of them sends instead of the answer ends the
// call, lest more of it follow; that it looks for the caller does not.
func TestTheFirstWrongAnswerEndsTheCall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		wrong func(schemas.ToolRequest) schemas.ToolRequest
		text  string
		want  string
	}{
		"another nonce": {func(r schemas.ToolRequest) schemas.ToolRequest { r.Nonce = "other"; return r }, "", "nonce"},
		"no nonce":      {func(r schemas.ToolRequest) schemas.ToolRequest { r.Nonce = ""; return r }, "", "nonce"},
		"another call":  {func(r schemas.ToolRequest) schemas.ToolRequest { r.Call = "c99"; return r }, "", "call"},
		"no call":       {func(r schemas.ToolRequest) schemas.ToolRequest { r.Call = "x"; return r }, "", "/call"},
		"too large": {func(r schemas.ToolRequest) schemas.ToolRequest { return r }, strings.Repeat("x", 900_000),
			"bytes, more than 524288"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAnswering(t)
			req, end := a.call("mine")
			for range 2 {
				if _, err := a.server.RequestWithContext(bustest.Deadline(t), req.ReplyTo, nil); err != nil {
					t.Errorf("a worker that looks for the caller: %v", err)
				}
			}
			a.answer(req.ReplyTo, tc.wrong(req), tc.text)
			a.answer(req.ReplyTo, req, "right")
			got := bustest.Within(t, end)
			if got.err == nil || !strings.Contains(got.err.Error(), "a worker of tool mine has sent") ||
				!strings.Contains(got.err.Error(), tc.want) {
				t.Errorf("%+v", got)
			}
			if n := bustest.Messages(t, a.conn, schemas.StreamTools); n != 0 {
				t.Errorf("%d calls are queued", n)
			}
			bustest.Eventually(t, "nobody listens any more", func() bool {
				_, err := a.server.Request(req.ReplyTo, nil, time.Second)
				return errors.Is(err, nats.ErrNoResponders)
			})
			req, end = a.call("mine")
			a.answer(req.ReplyTo, req, "again")
			a.wantText("the next call", end, "again")
		})
	}
}

// Calls of a tool share a connection, which is closed some time after the last of them.
func TestToolsHaveConnectionsForTheirAnswers(t *testing.T) {
	t.Parallel()
	a := newAnswering(t)
	dispatch.AnswersWait(a.caller, 20*time.Millisecond)
	var ends []<-chan ended
	for n := range 12 {
		ends = append(ends, a.begin([]string{"mine", "bash"}[n%2]))
	}
	byTool := map[string][]schemas.ToolRequest{}
	for range ends {
		req := a.request()
		byTool[req.ToolName] = append(byTool[req.ToolName], req)
	}
	open := dispatch.Answers(a.caller)
	if mine, bash := open["mine"], open["bash"]; mine.NumSubscriptions() != 6 || bash.NumSubscriptions() != 6 {
		t.Errorf("%d and %d calls", mine.NumSubscriptions(), bash.NumSubscriptions())
	}
	if name := open["bash"].Opts.Name; name != t.Name()+"/answers/bash" {
		t.Errorf("the connection has the name %s", name)
	}
	for _, req := range byTool["bash"] {
		a.answer(req.ReplyTo, req, "done")
	}
	bustest.Eventually(t, "the connection of bash is closed", open["bash"].IsClosed)
	if open["mine"].IsClosed() {
		t.Error("a connection with calls is closed")
	}
	again, end := a.call("bash")
	a.answer(again.ReplyTo, again, "done")
	a.wantText("the call after that", end, "done")
	for _, req := range byTool["mine"] {
		a.answer(req.ReplyTo, req, "done")
	}
	for _, end := range ends {
		a.wantText("a call", end, "done")
	}
	bustest.Eventually(t, "all are closed", func() bool { return len(dispatch.Answers(a.caller)) == 0 })
}

// A caller that is closed lets the calls under way have their answers.
func TestAClosedCallerIsAnswered(t *testing.T) {
	t.Parallel()
	a := newAnswering(t)
	idle, end := a.call("bash")
	a.answer(idle.ReplyTo, idle, "done")
	a.wantText("the first call", end, "done")
	req, end := a.call("mine")
	open := dispatch.Answers(a.caller)
	a.caller.Close()
	if !open["bash"].IsClosed() || open["mine"].IsClosed() {
		t.Errorf("closed: bash %t, mine %t", open["bash"].IsClosed(), open["mine"].IsClosed())
	}
	a.answer(req.ReplyTo, req, "done")
	a.wantText("the call under way", end, "done")
	if !open["mine"].IsClosed() || len(dispatch.Answers(a.caller)) != 0 {
		t.Error("a connection is open")
	}
}

// A caller of very many tools has few connections without calls.
func TestFewConnectionsWaitForCalls(t *testing.T) {
	t.Parallel()
	a := newAnswering(t)
	for n := range 40 {
		req, end := a.call(fmt.Sprintf("t%d", n))
		a.answer(req.ReplyTo, req, "done")
		a.wantText("a call", end, "done")
	}
	if n := len(dispatch.Answers(a.caller)); n != 32 {
		t.Errorf("%d connections are open", n)
	}
}

// Without a connection for the answer no call is sent.
func TestNoCallWithoutAConnectionForItsAnswer(t *testing.T) {
	t.Parallel()
	a := newAnswering(t)
	a.conn.Close()
	got := bustest.Within(t, a.begin("mine"))
	if got.err == nil || !strings.Contains(got.err.Error(), "call tool mine for caller x1: listen for the answer: ") {
		t.Errorf("%+v", got)
	}
	if len(a.requests) != 0 {
		t.Error("a call was sent")
	}
}
