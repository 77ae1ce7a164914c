package models

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// A server that sends without a pause, and whose messages say nothing, holds a call neither beyond an abort nor beyond
// a timeout, nor beyond the second that it has for its last event.
func TestAFloodHoldsNoCall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, payload string }{
		{"heartbeats", ""},
		{"empty frames", strings.Repeat("{}\n", 1000) + "{}"},
		{"messages without an event", strings.Repeat(`{"message":{"role":"assistant","content":[]}}`+"\n", 1000) + "{}"},
		{"parts of no payload", "more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn := bustest.Connect(t, bustest.Server(t))
			requests := make(chan *nats.Msg, 1)
			if _, err := conn.NATS().ChanSubscribe(conn.Subjects().ModelRequest(), requests); err != nil {
				t.Fatal(err)
			}
			client := NewClient(conn, ClientOptions{})
			ctx, abort := context.WithCancel(bustest.Deadline(t))
			defer abort()
			ended := make(chan schemas.StreamEvent, 1)
			go func() {
				var last schemas.StreamEvent
				for e := range client.Stream(ctx, schemas.ModelRequest{Model: schemas.ModelRef{ID: "m"}}) {
					if last = e; e.Type == schemas.StreamStart {
						abort()
					}
				}
				ended <- last
			}()
			flooded := make(chan struct{})
			request := bustest.Within(t, requests)
			go func() { defer close(flooded); flood(client, request, c.payload) }()
			if last := bustest.Within(t, ended); last.Reason != schemas.StopAborted {
				t.Errorf("the call ended with %s, %q", last.Reason, last.Message.ErrorMessage)
			}
			bustest.Within(t, flooded)
		})
	}
}

// flood begins an answer, and then gives the client messages with the payload faster than it takes them, as long as the
// call lasts.
func flood(c *Client, request *nats.Msg, payload string) {
	for seq := 1; ; seq++ {
		m := &nats.Msg{Subject: request.Reply, Data: []byte(payload), Header: nats.Header{
			schemas.HeaderModelSeq: {strconv.Itoa(seq)}}}
		switch {
		case seq == 1:
			m.Data = []byte(`{"call":"c1"}`)
		case seq == 2:
			m.Data = []byte(`{"event":{"type":"start"},"message":{"role":"assistant","content":[],"stopReason":"stop"}}`)
		case payload == "more":
			m.Header[schemas.HeaderModelMore] = []string{"1"}
			m.Data = nil
		}
		for {
			c.mu.Lock()
			call := c.calls[request.Header.Get(schemas.HeaderModelToken)]
			c.mu.Unlock()
			if call == nil {
				return
			}
			if call.backlog.Len() < 10_000 {
				break
			}
			runtime.Gosched()
		}
		c.route(m)
	}
}
