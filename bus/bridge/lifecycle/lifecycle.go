// Package lifecycle projects a session's log and its updates onto the eleven lifecycle events that gateways of chat
// programs use: agent_start, turn_start, message_start, text_delta, tool_execution_start, tool_execution_update,
// tool_execution_end, message_end, turn_end, agent_end and error. It is pure: no I/O, no clock, and the same log and
// updates give the same events.
//
// Differences to the original events:
//   - toolCallId is the call's key on the bus, which is unique in the session, unlike the model's own id
//   - turn_start names the messages of its context by id; their content is in the log
//   - usage.inputTokens of message_start is 0: a model reports it at the end
//   - an update's updateType is always partial-result, and its content replaces the previous content
//   - stop and termination reasons that the original does not list (error, aborted, interrupted; terminate,
//     stop_requested, max_turns, budget) are passed on by name; gateway_disconnected never occurs, because a viewer
//     that disconnects ends no run
//   - a reply that is withdrawn (retried by the same model or the next) is an error with recoverable true
package lifecycle

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// Event is one of the eleven events. A client that has received it has all that is derived from the log up to
// StateVersion: that is the sequence of the log event that it is derived from, if it is the last one of these; for the
// others, and for an update, the sequence of the event before.
type Event struct {
	Name         string
	StateVersion uint64
	Payload      any
}

// Projection derives the events. The zero value is the state before a session's first event. It is not safe for
// concurrent use.
type Projection struct {
	state loop.State
	sent  map[string]*sent // streamed text by message id
	block map[string]int   // content index streamed last, by message id
}

// sent is the streamed text of a message. Appending a piece must not cost the length of the text, as pieces may be
// many and small.
type sent struct {
	text  strings.Builder
	runes int
}

// From returns the projection that continues from a state, or from its outline. It takes ownership of the state.
func From(state loop.State) Projection { return Projection{state: state} }

// State returns the outline of the state at the last applied event. The caller must not modify it.
func (p *Projection) State() *loop.State { return &p.state }

// Bytes estimates the memory of the projection.
func (p *Projection) Bytes() (n int) {
	const entry = 64
	for _, s := range p.sent {
		n += s.text.Len()
	}
	return n + len(p.state.Messages)*entry
}

// Apply folds an item and returns the events derived from it, in order. The items must be those of
// [client.Session.Watch] from the first event on, with or without updates.
func (p *Projection) Apply(i client.Item) ([]Event, error) {
	if i.Update != nil {
		return p.update(i.Update), nil
	}
	queued := p.state.Queued()
	turn := p.turn()
	if err := p.state.Apply(*i.Event); err != nil {
		return nil, err
	}
	out := p.event(i.Event, turn, queued)
	p.state.Outline()
	for n := range len(out) - 1 { // a client that has not received the last one does not have the whole event
		out[n].StateVersion--
	}
	return out, nil
}

// turn returns the turn in progress, nil if there is none.
func (p *Projection) turn() *loop.Turn {
	if p.state.Run == nil {
		return nil
	}
	return p.state.Run.Turn
}

// AgentStart and its like are the payloads of the events of their names, Failure that of error.
type (
	AgentStart struct {
		SessionID     string   `json:"sessionId"`
		Model         string   `json:"model"`
		Tools         []string `json:"tools"`
		ThinkingLevel string   `json:"thinkingLevel"`
		ResumedFrom   string   `json:"resumedFrom,omitempty"`
		Timestamp     int64    `json:"timestamp"`
	}
	TurnStart struct {
		TurnID    string   `json:"turnId"`
		TurnIndex int      `json:"turnIndex"`
		Messages  []string `json:"messages"`
	}
	MessageStart struct {
		MessageID string `json:"messageId"`
		Role      string `json:"role"`
		Model     string `json:"model"`
		Usage     struct {
			InputTokens int64 `json:"inputTokens"`
		} `json:"usage"`
	}
	TextDelta struct {
		MessageID string `json:"messageId"`
		Delta     string `json:"delta"`
		Index     int    `json:"index"`
	}
	ToolExecutionStart struct {
		ToolCallID string          `json:"toolCallId"`
		ToolName   string          `json:"toolName"`
		Input      json.RawMessage `json:"input"`
		MessageID  string          `json:"messageId"`
	}
	ToolExecutionUpdate struct {
		ToolCallID string `json:"toolCallId"`
		UpdateType string `json:"updateType"`
		Content    string `json:"content"`
	}
	ToolExecutionEnd struct {
		ToolCallID string `json:"toolCallId"`
		Success    bool   `json:"success"`
		Output     string `json:"output"`
		DurationMs int64  `json:"durationMs"`
		Error      *Error `json:"error,omitempty"`
	}
	MessageEnd struct {
		MessageID  string `json:"messageId"`
		StopReason string `json:"stopReason"`
		Usage      Usage  `json:"usage"`
	}
	TurnEnd struct {
		TurnID            string `json:"turnId"`
		HasToolCalls      bool   `json:"hasToolCalls"`
		ShouldContinue    bool   `json:"shouldContinue"`
		TerminationReason string `json:"terminationReason,omitempty"`
	}
	AgentEnd struct {
		SessionID         string `json:"sessionId"`
		TotalTurns        int    `json:"totalTurns"`
		TotalTokens       int64  `json:"totalTokens"`
		DurationMs        int64  `json:"durationMs"`
		TerminationReason string `json:"terminationReason"`
	}
	Failure struct {
		Code        string         `json:"code"`
		Message     string         `json:"message"`
		Context     map[string]any `json:"context,omitempty"`
		Recoverable bool           `json:"recoverable"`
	}
	// Error is why a call has failed.
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	// Usage are the tokens of a reply.
	Usage struct {
		InputTokens     int64 `json:"inputTokens"`
		OutputTokens    int64 `json:"outputTokens"`
		CacheReadTokens int64 `json:"cacheReadTokens,omitempty"`
	}
)

// stopReasons maps the stop reasons whose names differ.
var stopReasons = map[schemas.StopReason]string{schemas.StopStop: "end_turn", schemas.StopToolUse: "tool_use",
	schemas.StopLength: "max_tokens"}

func (p *Projection) event(e *schemas.Event, turn *loop.Turn, queued bool) (out []Event) {
	emit := func(name string, payload any) { out = append(out, Event{name, e.Seq, payload}) }
	switch d := e.Data.(type) {
	case *schemas.AgentStart:
		emit("agent_start", p.agentStart(e))
	case *schemas.TurnStart:
		t := TurnStart{TurnID: e.TurnID, TurnIndex: d.TurnIndex, Messages: []string{}}
		for _, m := range p.state.Messages {
			t.Messages = append(t.Messages, m.ID)
		}
		emit("turn_start", t)
	case *schemas.MessageStart:
		if d.Role == schemas.RoleAssistant {
			emit("message_start", MessageStart{MessageID: d.MessageID, Role: "assistant", Model: d.Model})
		}
	case *schemas.MessageEnd:
		out = p.messageEnd(e, d)
	case *schemas.ToolExecutionStart:
		started := ToolExecutionStart{ToolCallID: string(schemas.NewCallKey(e.Seq)), ToolName: d.ToolName, Input: d.Args}
		if turn != nil {
			started.MessageID = turn.ReplyID
		}
		emit("tool_execution_start", started)
	case *schemas.ToolExecutionEnd:
		emit("tool_execution_end", toolEnd(d))
	case *schemas.TurnEnd:
		emit("turn_end", p.turnEnd(e, turn, queued))
	case *schemas.AgentEnd:
		emit("agent_end", AgentEnd{SessionID: e.Session, TotalTurns: d.Turns, TotalTokens: d.Usage.TotalTokens,
			DurationMs: d.DurationMs, TerminationReason: string(d.TerminationReason)})
		if !d.TerminationReason.Normal() && d.ErrorMessage != "" {
			emit("error", Failure{Code: string(d.TerminationReason), Message: d.ErrorMessage})
		}
		p.sent, p.block = nil, nil
	case *schemas.AutoRetryStart:
		emit("error", Failure{Code: "retry", Message: d.ErrorMessage, Recoverable: true,
			Context: map[string]any{"messageId": d.MessageID, "attempt": d.Attempt, "delayMs": d.DelayMs}})
	case *schemas.ModelFallback:
		emit("error", Failure{Code: "fallback", Message: d.ErrorMessage, Recoverable: true,
			Context: map[string]any{"messageId": d.MessageID, "model": d.To.String()}})
	}
	return out
}

func (p *Projection) agentStart(e *schemas.Event) AgentStart {
	c := p.state.Config
	a := AgentStart{SessionID: e.Session, Model: c.Model.String(), Tools: []string{},
		ThinkingLevel: string(c.ThinkingLevel), Timestamp: e.Time.UnixMilli()}
	for _, t := range c.Tools {
		a.Tools = append(a.Tools, t.Name)
	}
	if p.state.Origin != nil {
		a.ResumedFrom = p.state.Origin.Session
	}
	return a
}

// messageEnd returns the end of a reply, preceded by the text that was not streamed.
func (p *Projection) messageEnd(e *schemas.Event, d *schemas.MessageEnd) (out []Event) {
	m, ok := d.Message.Message.(*schemas.AssistantMessage)
	if !ok {
		return nil
	}
	if rest, ok := strings.CutPrefix(m.Content.JoinText(), p.said(d.MessageID)); ok && rest != "" {
		out = append(out, Event{"text_delta", e.Seq, p.delta(d.MessageID, rest)})
	}
	delete(p.sent, d.MessageID)
	end := MessageEnd{MessageID: d.MessageID, StopReason: stopReasons[m.StopReason], Usage: Usage{
		InputTokens: m.Usage.Input, OutputTokens: m.Usage.Output, CacheReadTokens: m.Usage.CacheRead}}
	switch {
	case d.Interrupted:
		end.StopReason = "interrupted"
	case end.StopReason == "":
		end.StopReason = string(m.StopReason)
	}
	return append(out, Event{"message_end", e.Seq, end})
}

func toolEnd(d *schemas.ToolExecutionEnd) ToolExecutionEnd {
	end := ToolExecutionEnd{ToolCallID: string(d.Call), Success: !d.IsError, Output: d.Result.Content.JoinText(),
		DurationMs: d.DurationMs}
	if d.IsError {
		end.Error = &Error{Code: "tool_error", Message: end.Output}
	}
	return end
}

func (p *Projection) turnEnd(e *schemas.Event, turn *loop.Turn, queued bool) TurnEnd {
	end := TurnEnd{TurnID: e.TurnID}
	if turn != nil {
		end.HasToolCalls = len(turn.Calls) > 0
	}
	if p.state.Run != nil && p.state.Run.Last != nil {
		last := p.state.Run.Last
		end.ShouldContinue = !last.Failed && !last.Aborted && (last.Continue || queued)
		end.TerminationReason = string(last.Reason)
	}
	return end
}

func (p *Projection) update(u *schemas.Update) (out []Event) {
	switch d := u.Data.(type) {
	case *schemas.MessageUpdate:
		for _, e := range d.AssistantMessageEvents {
			if e.Type != schemas.StreamTextDelta || e.Delta == "" {
				continue
			}
			if at, begun := p.block[d.MessageID]; begun && at != e.ContentIndex {
				e.Delta = "\n" + e.Delta // text blocks are joined by line breaks
			}
			out = append(out, Event{"text_delta", p.state.Seq, p.delta(d.MessageID, e.Delta)})
			p.block[d.MessageID] = e.ContentIndex
		}
	case *schemas.ToolExecutionUpdate:
		out = append(out, Event{"tool_execution_update", p.state.Seq, ToolExecutionUpdate{ToolCallID: string(d.Call),
			UpdateType: "partial-result", Content: d.PartialResult.Content.JoinText()}})
	}
	return out
}

// said returns the streamed text of a message.
func (p *Projection) said(message string) string {
	if was := p.sent[message]; was != nil {
		return was.text.String()
	}
	return ""
}

// delta appends to a reply's text. Its index counts characters, so that a client can place a repeated delta.
func (p *Projection) delta(message, text string) TextDelta {
	if p.sent == nil {
		p.sent, p.block = map[string]*sent{}, map[string]int{}
	}
	was := p.sent[message]
	if was == nil {
		was = new(sent)
		p.sent[message] = was
	}
	d := TextDelta{MessageID: message, Delta: text, Index: was.runes}
	was.text.WriteString(text)
	was.runes += utf8.RuneCountInString(text)
	return d
}
