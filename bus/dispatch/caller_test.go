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
