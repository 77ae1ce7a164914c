package client_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// connect returns a client with a new connection.
func connect(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.Connect(url, client.Options{Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// deadline returns the context for everything that a test waits for.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), system.Deadline)
	t.Cleanup(cancel)
	return ctx
}

// chunked is a model that streams the replies in pieces of three bytes.
func chunked(t *testing.T, replies ...scripted.Response) *scripted.Model {
	t.Helper()
	m, err := scripted.NewScripts(scripted.Options{ChunkSize: 3}, scripted.Script{Responses: replies, Loop: true})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// echoCall returns a reply that calls the tool echo.
func echoCall() scripted.Response {
	return scripted.Calls("let me see", schemas.ToolCall{Name: "echo", Arguments: json.RawMessage(`{"v":"1"}`)})
}

// checked collects items and checks the promises of the client about them.
type checked struct {
	t       *testing.T
	last    uint64            // sequence of the last event
	began   bool              // true after the first event
	starts  map[uint64]bool   // sequences of the start events that are open
	updates map[uint64]uint64 // number of the last update of each event
	text    map[uint64]string // streamed text so far
	items   []client.Item
}

func newChecked(t *testing.T) *checked {
	return &checked{t: t, starts: map[uint64]bool{}, updates: map[uint64]uint64{}, text: map[uint64]string{}}
}

func (c *checked) add(i client.Item) {
	c.t.Helper()
	c.items = append(c.items, i)
	if u := i.Update; u != nil {
		if !c.starts[u.Event] {
			c.t.Errorf("update %s without its event, or after its end", u.ID())
		}
		if _, message := u.Data.(*schemas.MessageUpdate); message && u.N != c.updates[u.Event]+1 {
			c.t.Errorf("update %s follows %d", u.ID(), c.updates[u.Event])
		}
		c.updates[u.Event] = u.N
		c.text[u.Event] += i.Delta()
		return
	}
	if c.began && i.Event.Seq <= c.last {
		c.t.Errorf("event %d follows %d", i.Event.Seq, c.last)
	}
	c.last, c.began = i.Event.Seq, true
	switch i.Event.Data.(type) {
	case *schemas.MessageStart, *schemas.ToolExecutionStart:
		c.starts[i.Event.Seq] = true
	case *schemas.MessageEnd:
		for seq := range c.starts {
			if _, ok := c.text[seq]; ok {
				delete(c.starts, seq)
			}
		}
	}
}

// events returns the events among the items.
func (c *checked) events() (list []schemas.Event) {
	for _, i := range c.items {
		if i.Event != nil {
			list = append(list, *i.Event)
		}
	}
	return list
}

// streamed returns the streamed text of the nth reply, from 0.
func (c *checked) streamed(n int) string {
	c.t.Helper()
	for _, e := range c.events() {
		if d, ok := e.Data.(*schemas.MessageStart); ok && d.Role == schemas.RoleAssistant {
			if n == 0 {
				return c.text[e.Seq]
			}
			n--
		}
	}
	c.t.Errorf("%d replies are missing", n+1)
	return ""
}
