package agui

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

type userMessage struct {
	ID      string `json:"id"`
	Role    string `json:"role"`
	Content any    `json:"content"`
}

type assistantMessage struct {
	ID        string     `json:"id"`
	Role      string     `json:"role"`
	Content   string     `json:"content,omitempty"`
	ToolCalls []toolCall `json:"toolCalls,omitempty"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type toolMessage struct {
	ID         string `json:"id"`
	Role       string `json:"role"`
	ToolCallID string `json:"toolCallId"`
	Content    string `json:"content"`
	Error      string `json:"error,omitempty"`
}

// callID returns the id of the nth call of a message, from 0. The model's own id need not be unique.
func callID(message string, n int) string { return message + "." + strconv.Itoa(n) }

// reasoningID returns the id of a message's reasoning.
func reasoningID(message string) string { return message + ".r" }

// openCall is a call of the transcript without a result.
type openCall struct{ model, id string }

// snapshot returns the messages of the transcript, made one after another. It omits reasoning, so that the client keeps
// what it has of it, and messages of application-defined roles.
func snapshot(s *loop.State) iter.Seq[any] {
	return func(yield func(any) bool) {
		var open []openCall
		for _, e := range s.Messages {
			var m any
			if m, open = shownAs(e, open); m != nil && !yield(m) {
				return
			}
		}
	}
}

// shownAs returns a message in the form of the protocol, or nil, and the calls that are open after it.
func shownAs(e loop.Entry, open []openCall) (any, []openCall) {
	switch m := e.Message.Message.(type) {
	case *schemas.UserMessage:
		return userMessage{e.ID, "user", partsOf(m.Content)}, open
	case *schemas.AssistantMessage:
		a := assistantMessage{ID: e.ID, Role: "assistant", Content: m.Content.JoinText()}
		open = nil
		for n, c := range m.Content.ToolCalls() {
			call := toolCall{ID: callID(e.ID, n), Type: "function"}
			call.Function.Name, call.Function.Arguments = c.Name, arguments(c)
			a.ToolCalls = append(a.ToolCalls, call)
			open = append(open, openCall{c.ID, call.ID})
		}
		return a, open
	case *schemas.ToolResultMessage:
		var id string
		if id, open = answered(open, m.ToolCallID); id == "" {
			return nil, open // its call is not in the transcript
		}
		t := toolMessage{ID: e.ID, Role: "tool", ToolCallID: id, Content: shown(m.Content)}
		if m.IsError {
			t.Error = t.Content
		}
		return t, open
	}
	return nil, open
}

// parts returns the encoded event in parts: a snapshot in one for each message, any other in one.
func (e event) parts() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		messages := e.Messages
		e.Messages = nil
		data, err := schemas.Marshal(e)
		if messages == nil || err != nil {
			yield(data, err)
			return
		}
		if !yield(append(data[:len(data)-1], `,"messages":[`...), nil) {
			return
		}
		separator := ""
		for m := range messages {
			data, err := schemas.Marshal(m)
			if !yield([]byte(separator), nil) || !yield(data, err) {
				return
			}
			separator = ","
		}
		yield([]byte("]}"), nil)
	}
}

// answered removes the first open call with the model's id. Results are in the order of the calls.
func answered(open []openCall, model string) (id string, left []openCall) {
	for i, c := range open {
		if c.model == model {
			return c.id, append(append(left, open[:i]...), open[i+1:]...)
		}
	}
	return "", open
}

// resultOf returns the id of the call that a result of the transcript belongs to.
func resultOf(s *loop.State, message string) string {
	var open []openCall
	for _, e := range s.Messages {
		switch m := e.Message.Message.(type) {
		case *schemas.AssistantMessage:
			open = nil
			for n, c := range m.Content.ToolCalls() {
				open = append(open, openCall{c.ID, callID(e.ID, n)})
			}
		case *schemas.ToolResultMessage:
			var id string
			if id, open = answered(open, m.ToolCallID); e.ID == message {
				return id
			}
		}
	}
	return ""
}

func arguments(c schemas.ToolCall) string {
	if len(c.Arguments) == 0 {
		return "{}"
	}
	return string(c.Arguments)
}

// partsOf returns a user's content, as a plain text if it contains nothing else.
func partsOf(c schemas.Contents) any {
	var parts []any
	images := false
	for _, block := range c {
		switch b := block.(type) {
		case schemas.Text:
			parts = append(parts, map[string]any{"type": "text", "text": b.Text})
		case schemas.Image:
			images = true
			parts = append(parts, map[string]any{"type": "image",
				"source": map[string]any{"type": "data", "value": b.Data, "mimeType": b.MimeType}})
		}
	}
	if !images {
		return c.JoinText()
	}
	return parts
}

// shown returns a result as text, the only form that clients of all versions accept.
func shown(c schemas.Contents) string {
	lines := []string{}
	for _, block := range c {
		switch b := block.(type) {
		case schemas.Text:
			lines = append(lines, b.Text)
		case schemas.Image:
			lines = append(lines, fmt.Sprintf("[image, %s]", b.MimeType))
		}
	}
	return strings.Join(lines, "\n")
}
