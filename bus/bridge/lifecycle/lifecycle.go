// Package lifecycle projects a session's log and its updates onto the eleven lifecycle events that gateways of chat
// programs know: agent_start, turn_start, message_start, text_delta, tool_execution_start, tool_execution_update,
// tool_execution_end, message_end, turn_end, agent_end and error. It is pure: no I/O, no clock, and the same log and
// updates give the same events.
//
// What the log cannot say, or says better:
//   - toolCallId is the call's key on the bus, which is unique in the session where the model's own need not be
//   - turn_start names the messages of its context by id; they are in the log
//   - usage.inputTokens of message_start is 0: a model says it at the end
//   - an update's updateType is always partial-result, and its content takes the place of the one before
//   - stop and termination reasons that the seed of these events does not list (error, aborted, interrupted; terminate,
//     stop_requested, max_turns, budget) are passed on by name, and gateway_disconnected never comes: a viewer that
//     leaves ends no run
//   - a reply that is withdrawn (retried, by the same model or the next) is an error with recoverable true
package lifecycle

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// Event is one of the eleven. StateVersion is the sequence of the event of the log that it comes from, or of the newest
// before its update: a client that has seen it has seen the log so far.
type Event struct {
	Name         string
	StateVersion uint64
	Payload      any
}

// Projection makes the events. The zero value is before a session's first event. It is of one goroutine.
type Projection struct {
	state loop.State
	sent  map[string]*sent // text that was streamed, by message
	block map[string]int   // of the message's content, that was streamed last
}

// sent is what was streamed of a message. Pieces may be many and small: none costs what was said before it.
type sent struct {
	text  strings.Builder
	runes int
}

// From returns the projection of what follows a state, which it takes over.
func From(state loop.State) Projection { return Projection{state: state} }

// State is the state that the log so far comes to. It must not be changed.
func (p *Projection) State() *loop.State { return &p.state }

// Take folds an item and returns what it comes to, in order. Items have to be those of [client.Session.Watch] from the
// first event on, updates only where they are wanted. An error says that an option is missing.
func (p *Projection) Take(i client.Item) ([]Event, error) {
	if i.Update != nil {
		return p.update(i.Update), nil
	}
	queued := p.state.Queued()
	turn := p.turn()
	if err := p.state.Apply(*i.Event); err != nil {
		return nil, err
	}
	return p.event(i.Event, turn, queued), nil
}

// turn is the reply of the turn under way.
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

// stopReasons are those that have other names here.
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

// messageEnd is a reply's end, and what was not streamed of its text before.
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
				e.Delta = "\n" + e.Delta // as blocks of text are joined
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

// said is the text that was streamed of a message.
func (p *Projection) said(message string) string {
	if was := p.sent[message]; was != nil {
		return was.text.String()
	}
	return ""
}

// delta goes on with a reply's text. Its index counts characters, so that one that comes again says where it belongs.
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
