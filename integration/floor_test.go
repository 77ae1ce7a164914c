package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/schemas"
)

// floor does the minimum JetStream work of a tool turn with nats.go alone: it appends the turn's eight events in three
// commits, one after the other, with the sequence check; publishes, consumes and acknowledges the call; and publishes
// and consumes the result. Its messages are as large as those of loopbus, and like loopbus it has one connection for
// the runner and one for the tools.
type floor struct {
	runner, tools jetstream.JetStream
	waiting       sync.Map // session -> chan struct{}
	handling      sync.WaitGroup
	commits       []*nats.Msg
	call, result  []byte
}

func startFloor(tb testing.TB, server *embedded.Server) *floor {
	tb.Helper()
	f := &floor{runner: connectFloor(tb, server), tools: connectFloor(tb, server)}
	f.commits, f.call, f.result = floorMessages(tb)
	tb.Cleanup(f.handling.Wait)
	ctx := context.WithoutCancel(tb.Context()) // at the end of the test the last answers are not acknowledged yet
	for name, c := range map[string]jetstream.StreamConfig{
		"FLOOR_EVT":  {Subjects: []string{"floor.evt.*"}},
		"FLOOR_TOOL": {Subjects: []string{"floor.tool.*"}, Retention: jetstream.WorkQueuePolicy},
		"FLOOR_CMD":  {Subjects: []string{"floor.cmd.*"}, Retention: jetstream.WorkQueuePolicy},
	} {
		c.Name = name
		if _, err := f.runner.CreateStream(ctx, c); err != nil {
			tb.Fatal(err)
		}
	}
	f.consume(tb, f.tools, "FLOOR_TOOL", func(m jetstream.Msg) {
		session := m.Subject()[len("floor.tool."):]
		if _, err := f.tools.Publish(ctx, "floor.cmd."+session, f.result); err != nil {
			tb.Error(err)
		}
		_ = m.Ack()
	})
	f.consume(tb, f.runner, "FLOOR_CMD", func(m jetstream.Msg) {
		_ = m.Ack()
		c, _ := f.waiting.Load(m.Subject()[len("floor.cmd."):])
		c.(chan struct{}) <- struct{}{}
	})
	return f
}

func connectFloor(tb testing.TB, server *embedded.Server) jetstream.JetStream {
	tb.Helper()
	nc, err := nats.Connect(server.ClientURL())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		tb.Fatal(err)
	}
	return js
}

// consume handles each message in a new goroutine, as a worker with enough slots does.
func (f *floor) consume(tb testing.TB, js jetstream.JetStream, stream string, handle func(jetstream.Msg)) {
	tb.Helper()
	c, err := js.CreateConsumer(tb.Context(), stream,
		jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		tb.Fatal(err)
	}
	cc, err := c.Consume(func(m jetstream.Msg) { f.handling.Go(func() { handle(m) }) })
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(cc.Stop)
}

// run does the work of some tool turns of one session.
func (f *floor) run(tb testing.TB, session string, turns int) {
	done := make(chan struct{}, 1)
	f.waiting.Store(session, done)
	var last uint64
	for range turns {
		last = f.append(tb, session, f.commits[:2], last)
		if _, err := f.runner.Publish(context.Background(), "floor.tool."+session, f.call); err != nil {
			tb.Error(err)
			return
		}
		<-done
		last = f.append(tb, session, f.commits[2:], last)
	}
}

func (f *floor) append(tb testing.TB, session string, commits []*nats.Msg, last uint64) uint64 {
	for _, e := range commits {
		m := &nats.Msg{Subject: "floor.evt." + session, Header: nats.Header{}, Data: e.Data}
		for k, v := range e.Header {
			m.Header[k] = v
		}
		ack, err := f.runner.PublishMsg(context.Background(), m, jetstream.WithExpectLastSequencePerSubject(last))
		if err != nil {
			tb.Error(err)
			return last
		}
		last = ack.Sequence
	}
	return last
}

// floorMessages are messages of the same sizes as those of a tool turn of loopbus.
func floorMessages(tb testing.TB) (commits []*nats.Msg, call, result []byte) {
	args := json.RawMessage(`{"v":"x"}`)
	reply := &schemas.AssistantMessage{
		Content:    schemas.Contents{schemas.ToolCall{ID: "call_1_0", Name: "echo", Arguments: args}},
		StopReason: schemas.StopToolUse,
		API:        "scripted", Provider: "scripted", Model: "scripted",
	}
	answer := &schemas.ToolResultMessage{ToolCallID: "call_1_0", ToolName: "echo",
		Content: schemas.Contents{schemas.Text{Text: `{"v":"x"}`}}}
	var events []schemas.Event
	for i, data := range []schemas.EventData{
		&schemas.TurnStart{},
		&schemas.MessageStart{MessageID: "m10", Role: schemas.RoleAssistant, API: "scripted", Provider: "scripted",
			Model: "scripted"},
		&schemas.MessageEnd{MessageID: "m10", Message: schemas.AnyMessage{Message: reply}},
		&schemas.ToolExecutionStart{ToolCallID: "call_1_0", ToolName: "echo", Args: args},
		&schemas.ToolExecutionEnd{ToolCallID: "call_1_0", ToolName: "echo", Call: "c12",
			Result: schemas.TextResult(`{"v":"x"}`)},
		&schemas.MessageStart{MessageID: "m14", Role: schemas.RoleToolResult, ToolCallID: "call_1_0", ToolName: "echo"},
		&schemas.MessageEnd{MessageID: "m14", Message: schemas.AnyMessage{Message: answer}},
		&schemas.TurnEnd{MessageID: "m10", ToolResults: []string{"m14"}},
	} {
		events = append(events, schemas.Event{Session: "floor", Seq: uint64(i + 1), Source: "/loopbus/runner/bench",
			RunID: "r2", TurnID: "t3",
			CorrelationID: "cmd-1", CausationID: "cmd-1", PrevHash: fmt.Sprintf("%064d", i), Data: data})
	}
	for _, commit := range [][]schemas.Event{events[:2], events[2:4], events[4:]} {
		header, payload, err := schemas.EncodeCommit(commit...)
		if err != nil {
			tb.Fatal(err)
		}
		commits = append(commits, &nats.Msg{Header: header, Data: payload})
	}
	call, err := schemas.Marshal(schemas.ToolRequest{Session: "floor", RunID: "r2", TurnID: "t3", Call: "c12",
		ToolCallID: "call_1_0",
		ToolName:   "echo", Arguments: args})
	if err != nil {
		tb.Fatal(err)
	}
	result, err = schemas.Marshal(schemas.ToolResponse{Call: "c12", ToolCallID: "call_1_0", ToolName: "echo",
		Result: schemas.TextResult(`{"v":"x"}`)})
	if err != nil {
		tb.Fatal(err)
	}
	return commits, call, result
}
