package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/providers/internal/playback"
	"github.com/loopbus/loopbus/schemas"
)

// Response is one reply. Without Events, the message is streamed completely, in chunks; with Events, exactly these
// are streamed, and the message is the payload of the last one. Each call fills in the message's API, Provider, Model
// and Timestamp, and the missing ids of tool calls, derived from their position in the transcript. An empty stop
// reason means toolUse if the message has tool calls, otherwise stop. Fail lists the error texts of the attempts that
// fail before the response is played.
type Response struct {
	Fail    []string
	Events  []Event
	Message schemas.AssistantMessage
}

// Event is one event of a stream. An event without a type is a pause.
type Event struct {
	schemas.StreamEvent
	Delay time.Duration // before the event
}

// Text returns a response that consists of text and ends the turn.
func Text(text string) Response {
	return Response{Message: schemas.AssistantMessage{Content: schemas.Contents{schemas.Text{Text: text}}}}
}

// Calls returns a response that calls tools, after a text if it is not empty.
func Calls(text string, calls ...schemas.ToolCall) Response {
	var content schemas.Contents
	if text != "" {
		content = append(content, schemas.Text{Text: text})
	}
	for _, call := range calls {
		content = append(content, call)
	}
	return Response{Message: schemas.AssistantMessage{Content: content}}
}

// Error returns a response that fails with a text.
func Error(text string) Response {
	return Response{Message: schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: text}}
}

// prepare validates the response and returns it in the form of package playback.
func (r Response) prepare(o Options) (*playback.Reply, error) {
	message, err := complete(r.Message)
	if err != nil {
		return nil, err
	}
	if r.Events == nil {
		return playback.Prepare(message, playback.Chunks(o.ChunkSize), o.ChunkDelay), nil
	}
	reply := &playback.Reply{Message: message}
	for i, e := range r.Events {
		last := i == len(r.Events)-1
		step, err := e.step(&message, last)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
		reply.Steps = append(reply.Steps, step)
	}
	if len(r.Events) == 0 {
		return nil, errors.New("no events, not even done or error")
	}
	return reply, nil
}

// complete validates the message and sets defaults for missing arguments and a missing stop reason.
func complete(m schemas.AssistantMessage) (schemas.AssistantMessage, error) {
	content := make(schemas.Contents, 0, len(m.Content))
	calls := 0
	for i, block := range m.Content {
		if call, ok := block.(schemas.ToolCall); ok {
			calls++
			arguments := bytes.TrimSpace(call.Arguments)
			if len(arguments) == 0 {
				arguments = json.RawMessage("{}")
			}
			if call.Name == "" {
				return m, fmt.Errorf("content %d: tool call without a name", i+1)
			}
			if arguments[0] != '{' || !json.Valid(arguments) {
				return m, fmt.Errorf("content %d: arguments of %s are not a JSON object", i+1, call.Name)
			}
			call.Arguments = arguments
			block = call
		}
		content = append(content, block)
	}
	m.Content = content
	switch m.StopReason {
	case schemas.StopStop, schemas.StopLength, schemas.StopToolUse, schemas.StopError, schemas.StopAborted:
	case "":
		if m.StopReason = schemas.StopStop; calls > 0 {
			m.StopReason = schemas.StopToolUse
		}
	default:
		return m, fmt.Errorf("unknown stop reason %q", m.StopReason)
	}
	return m, nil
}

// step validates an event and sets its missing content from the message.
func (e Event) step(message *schemas.AssistantMessage, last bool) (playback.Step, error) {
	step := playback.Step{Pause: e.Delay, Event: e.StreamEvent}
	if e.Delay < 0 {
		return step, fmt.Errorf("negative delay %s", e.Delay)
	}
	if last != e.Terminal() {
		if last {
			return step, fmt.Errorf("%q is the last event, want done or error", e.Type)
		}
		return step, fmt.Errorf("%s is not the last event", e.Type)
	}
	block := func() schemas.Content {
		if e.ContentIndex < 0 || e.ContentIndex >= len(message.Content) {
			return nil
		}
		return message.Content[e.ContentIndex]
	}
	switch e.Type {
	case "", schemas.StreamStart, schemas.StreamTextStart, schemas.StreamTextDelta,
		schemas.StreamThinkingStart, schemas.StreamThinkingDelta, schemas.StreamToolCallDelta:
	case schemas.StreamTextEnd:
		if text, ok := block().(schemas.Text); ok && e.Content == "" {
			step.Event.Content = text.Text
		}
	case schemas.StreamThinkingEnd:
		if thinking, ok := block().(schemas.Thinking); ok && e.Content == "" {
			step.Event.Content = thinking.Thinking
		}
	case schemas.StreamToolCallStart, schemas.StreamToolCallEnd:
		if call, ok := block().(schemas.ToolCall); ok && e.ToolCall == nil {
			step.Event.ToolCall = &call
		}
	case schemas.StreamDone, schemas.StreamError:
		if e.Reason == "" {
			step.Event.Reason = message.StopReason
		}
	default:
		return step, fmt.Errorf("unknown event %q", e.Type)
	}
	return step, nil
}
