package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/loopbus/loopbus/loop/agent"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// tickingLog is a log, and a clock that is one second later after every event.
type tickingLog struct {
	driver.Log
	mu  sync.Mutex
	now time.Time
}

func (c *tickingLog) Append(ctx context.Context, e schemas.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Second)
	return c.Log.Append(ctx, e)
}

func (c *tickingLog) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *tickingLog) AfterFunc(time.Duration, func()) func() bool {
	return func() bool { return true }
}

// replies is a model that gives one reply after the other.
type replies []*schemas.AssistantMessage

func (r *replies) Stream(context.Context, schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		reply := (*r)[0]
		*r = (*r)[1:]
		if yield(schemas.StreamEvent{Type: schemas.StreamStart}, nil) {
			yield(schemas.StreamEvent{Type: schemas.StreamDone, Reason: reply.StopReason, Message: reply}, nil)
		}
	}
}

func usage(in, out int64) schemas.Usage {
	return schemas.Usage{Input: in, Output: out, TotalTokens: in + out, Cost: schemas.Cost{Total: float64(in+out) / 10000}}
}

// hostile is what a tool may say to a terminal.
const hostile = "\x1b]0;owned\x07\x1b[2Jred\x1b[31m\rhidden\u009b1m \u202eevil\u202c\tend"

// agentSession drives the in-memory agent through two runs into the log of the session "agent".
func (w *world) agentSession() {
	w.t.Helper()
	call := schemas.ToolCall{ID: "call_1", Name: "bash",
		Arguments: json.RawMessage(`{"command":"ls <dir> && echo \"x\""}`)}
	model := &replies{
		{Content: schemas.Contents{
			schemas.Thinking{Thinking: "I should look.\nThen answer."}, schemas.Text{Text: "Looking."}, call,
		}, Usage: usage(100, 20), StopReason: schemas.StopToolUse},
		{Content: schemas.Contents{schemas.Text{Text: "Two files.\n\nThat is all."}}, Usage: usage(150, 5),
			StopReason: schemas.StopStop},
		{Content: schemas.Contents{}, StopReason: schemas.StopError, ErrorMessage: "overloaded"},
	}
	tool := tools.Tool{
		ToolDefinition: schemas.ToolDefinition{Name: "bash", Description: "runs a command"},
		Execute: func(context.Context, tools.Call) (schemas.ToolResult, error) {
			var lines []string
			for i := range 30 {
				lines = append(lines, fmt.Sprintf("file %d", i))
			}
			return schemas.TextResult(hostile + "\n" + strings.Join(lines, "\n") + "\n"), nil
		},
	}
	log := &tickingLog{Log: w.open("agent"), now: begun}
	a, err := agent.New(w.ctx(), agent.Options{
		SystemPrompt: "You are helpful.", Model: schemas.ModelRef{API: "test", Provider: "acme", ID: "m1"},
		Tools: []tools.Tool{tool}, Stream: model, Log: log, Clock: log,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, prompt := range []string{"list the files", "again"} {
		var ended *agent.RunError // the fixture has runs that fail
		if _, err := a.Prompt(w.ctx(), prompt); err != nil && !errors.As(err, &ended) {
			w.t.Fatal(err)
		}
	}
	if err := log.Flush(w.ctx()); err != nil {
		w.t.Fatal(err)
	}
}

// serviceSession is a log with what only a runner writes: it is interrupted and waits for a tool.
func (w *world) serviceSession() { w.serviceSessionBy(w.writer("service")) }

func (w *world) serviceSessionBy(wr *writer) {
	w.t.Helper()
	call := schemas.ToolCall{ID: "call_9", Name: "write",
		Arguments: json.RawMessage(`{"text":"` + strings.Repeat("long ", 100) + `"}`)}
	reply := func(text string, content ...schemas.Content) schemas.AnyMessage {
		return schemas.AnyMessage{Message: &schemas.AssistantMessage{
			Content: append(schemas.Contents{schemas.Text{Text: text}}, content...), Usage: usage(10, 1),
			StopReason: schemas.StopToolUse,
		}}
	}
	wr.append(
		&schemas.CommandAccepted{CommandID: "c1", Kind: schemas.CommandPrompt, Queue: schemas.QueuePrompts,
			Data: json.RawMessage(`{"text":"go"}`)},
		&schemas.AgentStart{Inputs: []string{"c1"}, Config: &schemas.RunConfig{Model: schemas.ModelRef{ID: "m1"},
			ThinkingLevel: schemas.ThinkingHigh}},
		&schemas.TurnStart{},
		&schemas.MessageStart{MessageID: "m4", Role: schemas.RoleUser},
		&schemas.MessageEnd{MessageID: "m4", Message: schemas.AnyMessage{Message: &schemas.UserMessage{
			Content: schemas.Contents{
				schemas.Text{Text: "go"},
				schemas.Image{MimeType: "image/png", Data: "AAAA"},
			},
		}}},
		&schemas.CommandApplied{CommandID: "c1", Kind: schemas.CommandPrompt, MessageIDs: []string{"m4"}},
		&schemas.MessageStart{MessageID: "m7", Role: schemas.RoleAssistant, Provider: "acme", Model: "m1"},
		&schemas.CommandRejected{CommandID: "c2", Kind: schemas.CommandAbort, Code: schemas.RejectInvalid,
			Reason: "line one\nline \x1b[31mtwo"},
		&schemas.MessageEnd{MessageID: "m7", Message: reply("Half a"), Interrupted: true},
		&schemas.RunResumed{From: 8, Reason: "the runner was restarted", MessageID: "m7"},
		&schemas.ErrorEvent{Code: "provider", Message: "a hiccup", Recoverable: true},
		&schemas.MessageStart{MessageID: "m12", Role: schemas.RoleAssistant, Provider: "acme", Model: "m1"},
		&schemas.MessageEnd{MessageID: "m12", Message: reply("Writing.", call), DurationMs: 1500},
		&schemas.ToolExecutionStart{ToolCallID: "call_9", ToolName: "write", Args: call.Arguments},
		&schemas.CommandAccepted{CommandID: "c3", Kind: schemas.CommandSteer, Queue: schemas.QueueSteering,
			Data: json.RawMessage(`{"text":"stop"}`)},
		&schemas.CommandSuperseded{CommandID: "c3", Kind: schemas.CommandSteer, By: "c4"},
	)
}

// bigSession has a payload that is kept in the object store.
func (w *world) bigSession() {
	w.t.Helper()
	w.writer("big").append(
		&schemas.TranscriptReplaced{Messages: schemas.Messages{
			&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: strings.Repeat("<&> ", 80<<10)}}},
		}},
		&schemas.ErrorEvent{Code: "after", Message: "after the big one"},
	)
}
