package mistralconversations

import (
	"fmt"
	"io"

	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/providers/internal/failure"
	"github.com/loopbus/loopbus/schemas"
)

// A reader assembles the reply from chunks. A block of text ends where thinking or a tool call begins, and likewise a
// block of thinking. Tool calls end with the stream.
type reader struct {
	s       *assemble.Stream
	current *assemble.Block // the open block of text or thinking; nil if there is none
	calls   map[callKey]*assemble.Block
	latest  map[int]*assemble.Block // the newest call of an index
	failure error                   // the error that the finish reason means
}

// callKey identifies a call. The index alone does not, because Mistral may send several calls with the index 0.
type callKey struct {
	id    string
	index int
}

func newReader(s *assemble.Stream) *reader {
	return &reader{s: s, calls: make(map[callKey]*assemble.Block), latest: make(map[int]*assemble.Block)}
}

// read reads the reply to its end.
func (r *reader) read(body io.Reader) error {
	ended, err := chat.Read(body, r.s.Share(), r.chunk)
	if err != nil {
		return err
	}
	finished := r.s.Finished() != "" || r.failure != nil
	if !finished && !ended {
		return chat.ErrNoEnd
	}
	if !finished {
		r.s.Finish(schemas.StopStop)
	}
	r.endCurrent()
	r.s.EndAll()
	return r.failure
}

func (r *reader) chunk(data []byte) error {
	var c chunk
	if err := chat.Decode(data, &c); err != nil {
		return err
	}
	if c.Object == "error" || len(c.Error) > 0 && string(c.Error) != "null" {
		return failure.OfEvent("Mistral API error: "+string(data), data)
	}
	if r.s.ResponseID() == "" {
		r.s.SetResponseID(c.ID)
	}
	if c.Usage != nil {
		r.s.SetUsage(c.Usage.tokens())
	}
	if len(c.Choices) == 0 {
		return nil
	}
	r.s.Alive()
	first := &c.Choices[0]
	if text, _ := first.Delta.Thinking(); text != "" {
		r.add(chat.Part{Thinking: true, Text: text})
	}
	for _, p := range first.Delta.Content {
		r.add(p)
	}
	for i := range first.Delta.ToolCalls {
		r.call(&first.Delta.ToolCalls[i])
	}
	r.finish(first.FinishReason)
	if first.FinishReason != "" && (r.s.Answered() || r.s.Finished() != schemas.StopStop) {
		r.s.Linger() // some servers send no [DONE]
	}
	return nil
}

// add appends a part to the open block, or opens another block if the part is of the other type.
func (r *reader) add(p chat.Part) {
	kind := schemas.ContentText
	if p.Thinking {
		kind = schemas.ContentThinking
	}
	if r.current == nil || r.current.Kind() != kind {
		r.endCurrent()
		if p.Thinking {
			r.current = r.s.OpenThinking()
		} else {
			r.current = r.s.OpenText()
		}
	}
	r.current.Delta(p.Text)
}

func (r *reader) endCurrent() {
	if r.current != nil {
		r.current.End()
		r.current = nil
	}
}

// call appends to a tool call, or opens one.
func (r *reader) call(d *callDelta) {
	r.endCurrent()
	block := r.find(d)
	block.Identify("", d.Function.Name)
	block.Delta(string(d.Function.Arguments))
}

// find returns the call that the delta belongs to: that of its id and index, or of its index if it has no id. A new
// call without an id gets one.
func (r *reader) find(d *callDelta) *assemble.Block {
	key := callKey{d.ID, d.Index}
	block := r.calls[key]
	if d.ID == "" || d.ID == "null" {
		key.id = shortID(fmt.Sprintf("toolcall:%d", d.Index), 0)
		block = r.latest[d.Index]
	}
	if block == nil {
		block = r.s.OpenToolCall(key.id, d.Function.Name)
		r.calls[key] = block
	}
	r.latest[d.Index] = block
	return block
}

func (r *reader) finish(reason string) {
	switch reason {
	case "":
	case "stop":
		r.s.Finish(schemas.StopStop)
	case "length", "model_length":
		r.s.Finish(schemas.StopLength)
	case "tool_calls":
		r.s.Finish(schemas.StopToolUse)
	case "error":
		r.failure = schemas.NewFailure(schemas.FailureUnknown, "An unknown error occurred")
	default: // such as content_filter, or an unknown reason
		if r.s.Keep(len(reason)) {
			r.failure = chat.FinishError(reason)
		}
	}
}
