package playback

import (
	"iter"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/loopbus/loopbus/schemas"
)

// Step is one event of a stream, after a pause. A step whose event has no type is only a pause.
type Step struct {
	Pause time.Duration
	Event schemas.StreamEvent
}

// Reply is a prepared reply. It is immutable and safe for concurrent use.
//
// Message is the final message without its identity, which [Reply.Play] adds. Tool calls without an id get one from
// [Place.CallID].
type Reply struct {
	Steps   []Step
	Message schemas.AssistantMessage
}

// Prepare returns a reply that streams the whole message: start, every block with its deltas, then done or error. It
// pauses before each delta.
func Prepare(message schemas.AssistantMessage, split Splitter, pause time.Duration) *Reply {
	r := &Reply{Message: message}
	r.add(schemas.StreamEvent{Type: schemas.StreamStart})
	for i, block := range message.Content {
		switch b := block.(type) {
		case schemas.Text:
			r.block(i, b.Text, split, pause, schemas.StreamTextStart, schemas.StreamTextDelta,
				schemas.StreamEvent{Type: schemas.StreamTextEnd, Content: b.Text})
		case schemas.Thinking:
			r.block(i, b.Thinking, split, pause, schemas.StreamThinkingStart, schemas.StreamThinkingDelta,
				schemas.StreamEvent{Type: schemas.StreamThinkingEnd, Content: b.Thinking})
		case schemas.ToolCall:
			r.block(i, string(b.Arguments), split, pause, schemas.StreamToolCallStart, schemas.StreamToolCallDelta,
				schemas.StreamEvent{Type: schemas.StreamToolCallEnd, ToolCall: &b})
		}
	}
	end := schemas.StreamDone
	if message.Failed() {
		end = schemas.StreamError
	}
	r.add(schemas.StreamEvent{Type: end, Reason: message.StopReason})
	return r
}

func (r *Reply) add(e schemas.StreamEvent) { r.Steps = append(r.Steps, Step{Event: e}) }

// block adds the events of one content block.
func (r *Reply) block(i int, text string, split Splitter, pause time.Duration, start, delta schemas.StreamEventType,
	end schemas.StreamEvent) {
	first := schemas.StreamEvent{Type: start, ContentIndex: i}
	if end.ToolCall != nil {
		first.ToolCall = &schemas.ToolCall{ID: end.ToolCall.ID, Name: end.ToolCall.Name}
	}
	r.add(first)
	for chunk := range split(text) {
		r.Steps = append(r.Steps, Step{Pause: pause, Event: schemas.StreamEvent{Type: delta, ContentIndex: i, Delta: chunk}})
	}
	end.ContentIndex = i
	r.add(end)
}

// Splitter cuts a text into deltas, which are not empty. Joined, they are the text.
type Splitter func(text string) iter.Seq[string]

// Chunks cuts after every n characters.
func Chunks(n int) Splitter {
	return func(text string) iter.Seq[string] {
		return func(yield func(string) bool) {
			for text != "" {
				end := 0
				for range n {
					_, size := utf8.DecodeRuneInString(text[end:])
					end += size
				}
				if !yield(text[:end]) {
					return
				}
				text = text[end:]
			}
		}
	}
}

// Words cuts after the white space behind each word.
func Words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for start := 0; start < len(text); {
			end := start
			for end < len(text) && !isSpace(text[end]) {
				end++
			}
			for end < len(text) && isSpace(text[end]) {
				end++
			}
			if !yield(text[start:end]) {
				return
			}
			start = end
		}
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' }

// message returns a new copy of the final message, with its identity, timestamp and the ids of its tool calls.
func (r *Reply) message(at Place, stamp int64) *schemas.AssistantMessage {
	m := r.Message
	m.API, m.Provider, m.Model, m.Timestamp = at.Model.API, at.Model.Provider, at.Model.ID, stamp
	m.Content = slices.Clone(m.Content)
	for i, block := range m.Content {
		if call, ok := block.(schemas.ToolCall); ok && call.ID == "" {
			call.ID = at.CallID(i)
			m.Content[i] = call
		}
	}
	return &m
}
