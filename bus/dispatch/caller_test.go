package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/schemas"
)

func newCaller(t *testing.T, c *bus.Conn) *dispatch.Caller {
	t.Helper()
	caller, err := dispatch.NewCaller(c, dispatch.CallerOptions{ID: "x1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(caller.Close)
	return caller
}

// A worker that sends partial results without a pause, also after its answer, does not keep the caller from the answer.
func TestPartialResultsHoldNoAnswer(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	caller := newCaller(t, c)
	ctx, cancel := context.WithCancel(bustest.Deadline(t))
	defer cancel()
	say := func(call schemas.CallKey) {
		header, data, err := schemas.EncodeUpdate(schemas.Update{Session: "x1", Event: 1, N: 1, Source: "w1",
			Data: &schemas.ToolExecutionUpdate{Call: call, ToolCallID: string(call), ToolName: "echo",
				PartialResult: schemas.TextResult("half")}})
		if err == nil {
			err = c.NATS().PublishMsg(&nats.Msg{Subject: c.Subjects().LiveUpdate("x1"), Header: header, Data: data})
		}
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := c.NATS().Subscribe("agent.tool.>", func(m *nats.Msg) {
		req, err := schemas.ParseToolRequest(m.Data)
		if err != nil {
			t.Error(err)
			return
		}
		answer, err := schemas.Marshal(req.Answer("w1", schemas.TextResult("whole"), false, 0))
		if err == nil {
			say(req.Call)
			err = c.NATS().Publish(req.ReplyTo, answer)
		}
		if err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := caller.Call(ctx, "x1", schemas.ToolDefinition{Name: "echo"}, json.RawMessage(`{}`),
			func(schemas.ToolResult) {
				if ctx.Err() == nil { // two more for each
					say(schemas.NewCallKey(1))
					say(schemas.NewCallKey(1))
					if err := c.NATS().FlushWithContext(ctx); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
		ended <- err
	}()
	if err := bustest.Within(t, ended); err != nil {
		t.Error(err)
	}
}

// Calls of one session receive each partial result once, together, and not on the connection of their answers: a NATS
// server ends a connection for which too much is published.
func TestPartialResultsHaveAConnectionOfTheirOwn(t *testing.T) {
	t.Parallel()
	const calls, each, size = 12, 4, 50_000
	c := bustest.New(t)
	caller := newCaller(t, c)
	large := strings.Repeat("x", size)
	if _, err := c.NATS().Subscribe("agent.tool.>", func(m *nats.Msg) {
		req, err := schemas.ParseToolRequest(m.Data)
		for n := range each {
			header, data, failed := schemas.EncodeUpdate(schemas.Update{Session: "x1", Event: req.StartSeq, N: uint64(n + 1),
				Source: "w1", Data: &schemas.ToolExecutionUpdate{Call: req.Call, ToolCallID: string(req.Call),
					ToolName: "echo", PartialResult: schemas.TextResult(strconv.Itoa(n) + large)}})
			err = errors.Join(err, failed, c.NATS().PublishMsg(&nats.Msg{Subject: c.Subjects().LiveUpdate("x1"),
				Header: header, Data: data}))
		}
		answer, failed := schemas.Marshal(req.Answer("w1", schemas.TextResult("whole"), false, 0))
		if err = errors.Join(err, failed, c.NATS().Publish(req.ReplyTo, answer)); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	ctx := bustest.Deadline(t)
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			var got []byte
			response, err := caller.Call(ctx, "x1", schemas.ToolDefinition{Name: "echo"}, json.RawMessage(`{}`),
				func(partial schemas.ToolResult) { got = append(got, partial.Content.JoinText()[0]) })
			if err != nil || response.Result.Content.JoinText() != "whole" {
				t.Error(response, err)
			}
			if string(got) != "0123" {
				t.Errorf("partial results %q", got)
			}
		})
	}
	all.Wait()
	if n := c.NATS().Stats().InBytes; n > calls*size {
		t.Errorf("%d bytes came with the answers", n)
	}
	if n := dispatch.Updates(caller).InMsgs; n != calls*each {
		t.Errorf("%d partial results came for %d", n, calls*each)
	}
}

// A worker of one tool knows where answers of its own calls are sent. It cannot answer the calls of other tools, nor
// keep their answers away.
func TestAWorkerAnswersItsOwnCallsOnly(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	caller := newCaller(t, c)
	requests := make(chan *nats.Msg, 8)
	_, err := c.NATS().ChanSubscribe("agent.tool.>", requests)
	if err == nil {
		err = c.NATS().Flush() // calls leave by another connection
	}
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		response *schemas.ToolResponse
		err      error
	}
	call := func(tool string) (schemas.ToolRequest, <-chan result) {
		ended := make(chan result, 1)
		go func() {
			response, err := caller.Call(bustest.Deadline(t), "x1", schemas.ToolDefinition{Name: tool},
				json.RawMessage(`{}`), nil)
			ended <- result{response, err}
		}()
		req, err := schemas.ParseToolRequest(bustest.Within(t, requests).Data)
		if err != nil {
			t.Fatal(err)
		}
		return req, ended
	}
	answer := func(to string, req schemas.ToolRequest, text string) {
		t.Helper()
		data, err := schemas.Marshal(req.Answer("w1", schemas.TextResult(text), false, 0))
		if err == nil {
			err = c.NATS().Publish(to, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	own, ownEnded := call("mine")
	other, otherEnded := call("bash")
	before := c.NATS().Stats().InMsgs
	for range 100 {
		for _, nonce := range []string{"", own.Nonce, schemas.NoNonce} {
			forged := other
			forged.Nonce = nonce
			for _, token := range []string{string(other.Call), own.Nonce} {
				answer(c.Subjects().Reply("x1", token), forged, "forged")
			}
		}
	}
	answer(other.ReplyTo, other, "true")
	if got := bustest.Within(t, otherEnded); got.err != nil || got.response.Result.Content.JoinText() != "true" {
		t.Errorf("the call of bash: %+v", got)
	}
	if n := c.NATS().Stats().InMsgs - before; n > 40 {
		t.Errorf("%d messages came, most of them for nobody", n)
	}
	select {
	case got := <-ownEnded:
		t.Errorf("the other call: %+v", got)
	default:
	}
}
