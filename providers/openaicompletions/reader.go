package openaicompletions

import (
	"io"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/providers/internal/openaiapi"
	"github.com/loopbus/loopbus/schemas"
)

// A reader assembles the reply from chunks.
type reader struct {
	s        *assemble.Stream
	model    *providers.Model
	text     *assemble.Block
	thinking *assemble.Block
	calls    calls
	failure  error // the error that the finish reason means
}

func newReader(s *assemble.Stream, m *providers.Model) *reader {
	return &reader{s: s, model: m, calls: newCalls(s)}
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
	r.s.EndAll()
	return r.failure
}

func (r *reader) chunk(data []byte) error {
	var c chunk
	if err := chat.Decode(data, &c); err != nil {
		return err
	}
	if err := c.failure(data); err != nil {
		return err
	}
	if r.s.ResponseID() == "" {
		r.s.SetResponseID(c.ID)
	}
	if r.s.ResponseModel() == "" && c.Model != r.model.ID {
		r.s.SetResponseModel(c.Model)
	}
	if c.Usage != nil {
		r.s.SetUsage(c.Usage.tokens())
	}
	if len(c.Choices) == 0 {
		return nil
	}
	first := &c.Choices[0]
	if c.Usage == nil && first.Usage != nil {
		r.s.SetUsage(first.Usage.tokens())
	}
	r.s.Alive()
	r.delta(&first.Delta)
	r.finish(first.FinishReason)
	if first.FinishReason != "" && (r.s.Answered() || r.s.Finished() != schemas.StopStop) {
		r.s.Linger() // some servers send no [DONE]
	}
	return nil
}

// failure returns the error that the chunk reports: in its member error or, as vLLM does, as the chunk itself.
func (c *chunk) failure(data []byte) error {
	switch {
	case openaiapi.Truthy(c.Error):
		return openaiapi.FromStream(c.Error)
	case c.Object == "error":
		return openaiapi.FromStream(data)
	}
	return nil
}

func (r *reader) delta(d *delta) {
	for _, p := range d.Content {
		if p.Thinking {
			r.addThinking(p.Text, "") // servers do not expect it back
		} else {
			r.addText(p.Text)
		}
	}
	if text, field := d.Thinking(); text != "" {
		r.addThinking(text, field)
	}
	for i := range d.ToolCalls {
		r.calls.delta(&d.ToolCalls[i])
	}
	for _, detail := range d.ReasoningDetails {
		r.calls.sign(detail)
	}
}

func (r *reader) addText(text string) {
	if text == "" {
		return
	}
	if r.text == nil {
		r.text = r.s.OpenText()
	}
	r.text.Delta(text)
}

// addThinking appends to the thinking. field is the member in which the server expects it back.
func (r *reader) addThinking(text, field string) {
	if r.thinking == nil {
		r.thinking = r.s.OpenThinking()
		r.thinking.Sign(field)
	}
	r.thinking.Delta(text)
}

func (r *reader) finish(reason string) {
	switch reason {
	case "":
	case "stop", "end":
		r.s.Finish(schemas.StopStop)
	case "length":
		r.s.Finish(schemas.StopLength)
	case "tool_calls", "function_call":
		r.s.Finish(schemas.StopToolUse)
	default:
		if r.s.Keep(len(reason)) {
			r.failure = chat.FinishError(reason)
		}
	}
}
