package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// seen is what a viewer has received: the log, and the updates of each event in their order.
type seen struct {
	pending []schemas.Event // of the newest commit, not returned yet
	events  []schemas.Event
	updates []schemas.Update
}

// fill is a tool that sends partial results.
var fill = tools.Tool{
	ToolDefinition: schemas.ToolDefinition{Name: "fill"},
	Execute: func(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
		for i := range 10 {
			call.Update(schemas.TextResult(fmt.Sprintf("%d of 10", i+1)))
		}
		return schemas.TextResult("full"), nil
	},
}

// startTalker starts a system whose model streams for some time and whose tools send partial results.
func startTalker(t *testing.T) *system.System {
	t.Helper()
	calls := schemas.ToolCall{Name: "fill", Arguments: json.RawMessage(`{}`)}
	model, err := scripted.NewScripts(scripted.Options{ChunkSize: 3, ChunkDelay: 5 * time.Millisecond}, scripted.Script{
		Responses: []scripted.Response{
			scripted.Calls("I have to think about this, it will take a moment.", calls),
			scripted.Text("It is full now, and that took about as long as it takes to say so: \u00fcber sechzig Zeichen, " +
				"\U0001F600 and one more."),
		},
		Loop: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return system.StartAlone(t, system.Options{Model: model, Tools: []tools.Tool{fill},
		UpdateInterval: 10 * time.Millisecond})
}

// tap is one subscription to all live messages of a session, in the order of arrival.
func tap(t *testing.T, c *bus.Conn, session string) <-chan *nats.Msg {
	t.Helper()
	messages := make(chan *nats.Msg, 4096)
	sub, err := c.NATS().ChanSubscribe(c.Subjects().Prefix()+".live."+session+".>", messages)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := c.NATS().FlushTimeout(system.Deadline); err != nil {
		t.Fatal(err)
	}
	return messages
}

// take reads the next message of a tap into seen, and returns the event if it is one.
func (v *seen) take(t *testing.T, messages <-chan *nats.Msg) *schemas.Event {
	t.Helper()
	if len(v.pending) > 0 {
		return v.next()
	}
	select {
	case m := <-messages:
		if strings.HasSuffix(m.Subject, ".update") {
			u, err := schemas.DecodeUpdate(m.Header, m.Data)
			if err != nil {
				t.Fatal(err)
			}
			v.updates = append(v.updates, u)
			return nil
		}
		events, err := schemas.DecodeLog("s1", m.Header, m.Data, nil)
		if err != nil {
			t.Fatal(err)
		}
		v.pending = events
		return v.next()
	case <-time.After(system.Deadline):
		t.Fatalf("no message arrived after %v", system.TypesOf(v.events))
	}
	return nil
}

// next returns the next event of the newest commit.
func (v *seen) next() *schemas.Event {
	e := v.pending[0]
	v.pending, v.events = v.pending[1:], append(v.events, e)
	return &e
}

// On one subscription, updates of a message arrive after its start and before its end, also while commands arrive.
func TestUpdatesKeepTheirPlace(t *testing.T) {
	t.Parallel()
	s := startTalker(t)
	messages := tap(t, system.Connect(t, s.URL, "viewer"), "s1")
	s.Prompt(t, "s1", "fill it")
	var v seen
	starts, over := map[uint64]schemas.Event{}, map[string]bool{}
	steers := 0
	for end := system.Ends(1); ; {
		before := len(v.updates)
		e := v.take(t, messages)
		if e == nil {
			if len(v.updates)%3 == 0 && steers < 6 {
				steers++
				s.Send(t, "s1", &schemas.Steer{Input: client.Text("and more")})
			}
			checkPlace(t, v.updates[before], starts, over)
			continue
		}
		switch d := e.Data.(type) {
		case *schemas.MessageStart, *schemas.ToolExecutionStart:
			starts[e.Seq] = *e
		case *schemas.MessageEnd:
			over[d.MessageID] = true
		}
		if end(*e) {
			break
		}
	}
	if steers == 0 {
		t.Error("nothing was streamed")
	}
	checkDeltas(t, v)
}

// checkPlace checks that an update arrives after the start event that it names, and before the end of the message or
// call.
func checkPlace(t *testing.T, u schemas.Update, starts map[uint64]schemas.Event, over map[string]bool) {
	t.Helper()
	start, ok := starts[u.Event]
	if !ok {
		t.Errorf("update %s arrived before its event", u.ID())
		return
	}
	switch d := u.Data.(type) {
	case *schemas.MessageUpdate:
		begun, ok := start.Data.(*schemas.MessageStart)
		if !ok || begun.MessageID != d.MessageID {
			t.Errorf("update %s of message %s belongs to a %s", u.ID(), d.MessageID, start.Type())
		}
		if over[d.MessageID] {
			t.Errorf("update %s arrived after the end of message %s", u.ID(), d.MessageID)
		}
	case *schemas.ToolExecutionUpdate:
		begun, ok := start.Data.(*schemas.ToolExecutionStart)
		if !ok || begun.ToolCallID != d.ToolCallID {
			t.Errorf("update %s of call %s belongs to a %s", u.ID(), d.ToolCallID, start.Type())
		}
	}
}

// checkDeltas checks that the updates of each event are numbered without a gap, and that the deltas of a message add up
// to its text.
func checkDeltas(t *testing.T, v seen) {
	t.Helper()
	last, streamed := map[uint64]uint64{}, map[string]string{}
	for _, u := range v.updates {
		if last[u.Event]++; u.N != last[u.Event] {
			t.Errorf("update %s follows %d of them", u.ID(), last[u.Event]-1)
		}
		if d, ok := u.Data.(*schemas.MessageUpdate); ok {
			for _, e := range d.AssistantMessageEvents {
				if e.Type == schemas.StreamTextDelta {
					streamed[d.MessageID] += e.Delta
				}
			}
		}
	}
	for _, end := range system.DataOf[*schemas.MessageEnd](v.events) {
		reply, ok := end.Message.Message.(*schemas.AssistantMessage)
		text, ok2 := streamed[end.MessageID]
		if ok && ok2 && text != reply.Content.JoinText() {
			t.Errorf("message %s: streamed %q, ended with %q", end.MessageID, text, reply.Content.JoinText())
		}
	}
	if len(streamed) == 0 {
		t.Error("nothing was streamed")
	}
}

// A viewer that starts late reads the log, follows it, and catches up with the current stream. In the end it has
// received the same as a viewer that was there from the beginning.
func TestLateViewerMissesNothing(t *testing.T) {
	t.Parallel()
	s := startTalker(t)
	messages := tap(t, system.Connect(t, s.URL, "early"), "s1")
	s.Prompt(t, "s1", "fill it")
	var early seen
	for len(early.updates) < 2 { // a message is being streamed
		early.take(t, messages)
	}
	updates := streamOfUpdates(t, system.Connect(t, s.URL, "late"), "s1")
	late := seen{events: s.Until(t, "s1", "the end of the run", system.Ends(1))}
	for end := system.Ends(1); ; {
		if e := early.take(t, messages); e != nil && end(*e) {
			break
		}
	}
	for len(late.updates) < len(early.updates) {
		m, err := updates.Next(jetstream.NextMaxWait(system.Deadline))
		if err != nil {
			t.Fatalf("saw %d updates of %d: %v", len(late.updates), len(early.updates), err)
		}
		u, err := schemas.DecodeUpdate(m.Headers(), m.Data())
		if err != nil {
			t.Fatal(err)
		}
		late.updates = append(late.updates, u)
	}
	if d := cmp.Diff(s.LogOf(t, "s1"), late.events); d != "" {
		t.Errorf("events (-log +seen):\n%s", d)
	}
	if d := cmp.Diff(early.events, late.events); d != "" {
		t.Errorf("events (-early +late):\n%s", d)
	}
	if d := cmp.Diff(byEvent(early), byEvent(late)); d != "" {
		t.Errorf("updates (-early +late):\n%s", d)
	}
	checkDeltas(t, late)
}

// streamOfUpdates returns the stored updates of a session, followed by live ones.
func streamOfUpdates(t *testing.T, c *bus.Conn, session string) jetstream.MessagesContext {
	t.Helper()
	var messages jetstream.MessagesContext
	consumer, err := c.JetStream().OrderedConsumer(t.Context(), schemas.StreamUpdates,
		jetstream.OrderedConsumerConfig{FilterSubjects: []string{c.Subjects().LiveUpdate(session)}})
	if err == nil {
		messages, err = consumer.Messages()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(messages.Stop)
	return messages
}

func byEvent(v seen) map[uint64][]schemas.Update {
	all := map[uint64][]schemas.Update{}
	for _, u := range v.updates {
		all[u.Event] = append(all[u.Event], u)
	}
	return all
}

// A viewer that lost its connection continues with the event after the last one it has.
func TestViewerContinuesAfterItsLastEvent(t *testing.T) {
	t.Parallel()
	s := startTalker(t)
	s.Prompt(t, "s1", "fill it")
	session := system.Client(t, s.Client).Session("s1")
	var log []schemas.Event
	for over := system.Ends(1); ; {
		ctx, leave := context.WithTimeout(t.Context(), system.Deadline)
		had, last := len(log), false
		for item, err := range session.Watch(ctx, uint64(len(log)+1)) {
			if err != nil {
				t.Fatal(err)
			}
			if item.Event != nil {
				log, last = append(log, *item.Event), over(*item.Event)
				break // as a lost connection does
			}
		}
		leave()
		if len(log) == had {
			t.Fatalf("no event arrived after %v", system.TypesOf(log))
		}
		if last {
			break
		}
	}
	if d := cmp.Diff(s.LogOf(t, "s1"), log); d != "" {
		t.Errorf("events (-log +seen):\n%s", d)
	}
}
