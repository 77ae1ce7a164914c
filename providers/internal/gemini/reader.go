package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/providers/internal/failure"
	"github.com/loopbus/loopbus/providers/internal/openaiapi"
	"github.com/loopbus/loopbus/providers/internal/sse"
	"github.com/loopbus/loopbus/schemas"
)

var (
	errNoEnd      = schemas.NewFailure(schemas.FailureConnection, "stream ended before a finish reason")
	errIncomplete = schemas.NewFailure(schemas.FailureConnection,
		"stream ended before a finish reason: incomplete JSON segment at the end")
	errUnknown = schemas.NewFailure(schemas.FailureUnknown, "An unknown error occurred")
)

// blockedError returns the error of a prompt or a reply that the vendor refused.
func blockedError(text string) error { return schemas.NewFailure(schemas.FailureRefused, text) }

// withheld lists the finish reasons of a reply that the vendor withheld for its content.
var withheld = []string{"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
	"IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"}

// failedReasons lists the vendor's other finish reasons for a reply that failed.
var failedReasons = []string{"FINISH_REASON_UNSPECIFIED", "OTHER", "LANGUAGE", "MALFORMED_FUNCTION_CALL",
	"UNEXPECTED_TOOL_CALL", "NO_IMAGE", "IMAGE_OTHER"}

// reader assembles the reply from the events of a stream.
type reader struct {
	s       *assemble.Stream
	block   *assemble.Block // the open block of text or thinking; nil if there is none
	ids     map[string]bool // ids of the calls so far
	stamp   int64           // part of the ids that id makes
	reason  string          // the last finish reason
	blocked string          // why the vendor blocked the prompt
}

// newReader returns a reader. now, in Unix milliseconds, becomes part of the ids of calls that have none.
func newReader(s *assemble.Stream, now int64) *reader {
	return &reader{s: s, ids: map[string]bool{}, stamp: now}
}

// read reads the reply to its end.
func (r *reader) read(body io.Reader) error {
	events := sse.NewDecoder(body, r.s.Share())
	defer events.Close()
	for {
		e, err := events.Next()
		if errors.Is(err, io.EOF) {
			return r.end()
		}
		if err != nil {
			return err
		}
		if err := r.event(e); err != nil {
			return err
		}
	}
}

// event handles an event. It ignores events that do not begin with a data line, which the vendor does not send. The
// JSON of an error may come without the framing of an event.
func (r *reader) event(e sse.Event) error {
	if bytes.HasPrefix(e.Raw, []byte{'{'}) {
		return r.chunk(e.Raw)
	}
	if !bytes.HasPrefix(e.Raw, []byte("data:")) || len(e.Data) == 0 {
		return nil
	}
	if e.Unterminated {
		return errIncomplete
	}
	return r.chunk(e.Data)
}

func (r *reader) chunk(data []byte) error {
	var c chunk
	if err := chat.Decode(data, &c); err != nil {
		return &schemas.FailureError{
			Code: schemas.FailureServerError, Err: fmt.Errorf("stream terminated by a malformed chunk: %w", err),
		}
	}
	if openaiapi.Truthy(c.Error) {
		return eventError(data, c.Error)
	}
	r.s.Alive()
	if r.s.ResponseID() == "" {
		r.s.SetResponseID(c.ResponseID)
	}
	if c.UsageMetadata != nil {
		r.s.SetUsage(c.UsageMetadata.tokens())
	}
	if c.PromptFeedback.BlockReason != "" && r.s.Keep(len(c.PromptFeedback.BlockReason)) {
		r.blocked = c.PromptFeedback.BlockReason
		r.s.Linger()
	}
	if len(c.Candidates) == 0 {
		return nil
	}
	for _, p := range c.Candidates[0].Content.Parts {
		r.part(p)
	}
	if reason := c.Candidates[0].FinishReason; reason != "" && r.s.Keep(len(reason)) {
		r.reason = reason
		if r.s.Answered() || reason != "STOP" {
			r.s.Linger() // there is no event for the end
		}
	}
	return nil
}

// eventError returns the error that an event reports. data is the whole event, object its error member.
func eventError(data, object json.RawMessage) error {
	var e struct {
		Status string `json:"status"`
	}
	_ = json.Unmarshal(object, &e)
	var compact bytes.Buffer
	if json.Compact(&compact, bytes.TrimSpace(data)) != nil {
		compact.Reset()
		compact.Write(data)
	}
	return failure.OfEvent(fmt.Sprintf("got status: %s. %s", e.Status, compact.String()), object)
}

func (r *reader) part(p outputPart) {
	if p.Text != nil {
		r.text(p)
	}
	if p.FunctionCall == nil {
		return
	}
	r.endBlock()
	call := p.FunctionCall
	args := string(call.Args)
	if args == "" || args == "null" {
		args = "{}"
	}
	b := r.s.OpenToolCall(r.id(call.ID, call.Name), call.Name)
	b.Delta(args)
	b.Sign(p.ThoughtSignature)
	b.End()
}

// text appends to the open block, or opens another one where thinking begins or ends.
func (r *reader) text(p outputPart) {
	kind := schemas.ContentText
	if p.Thought {
		kind = schemas.ContentThinking
	}
	if r.block == nil || r.block.Kind() != kind {
		r.endBlock()
		if p.Thought {
			r.block = r.s.OpenThinking()
		} else {
			r.block = r.s.OpenText()
		}
	}
	r.block.Delta(string(*p.Text))
	if p.ThoughtSignature != "" {
		r.block.Sign(p.ThoughtSignature)
	}
}

func (r *reader) endBlock() {
	if r.block != nil {
		r.block.End()
		r.block = nil
	}
}

// id returns the vendor's id of a call. If it is empty or was used before, id returns a new one.
func (r *reader) id(given, name string) string {
	id := given
	for n := len(r.ids) + 1; id == "" || r.ids[id]; n++ {
		id = fmt.Sprintf("%s_%d_%d", name, r.stamp, n)
	}
	r.ids[id] = true
	return id
}

// end finishes the reply at the end of the body. It returns an error if the reply failed or is incomplete.
func (r *reader) end() error {
	switch {
	case r.reason == "" && r.blocked != "":
		return blockedError("Prompt blocked: " + r.blocked)
	case r.reason == "":
		return errNoEnd
	}
	r.s.EndAll()
	switch {
	case r.reason == "MAX_TOKENS":
		r.s.Finish(schemas.StopLength)
	case slices.Contains(withheld, r.reason):
		return blockedError("Reply blocked: " + r.reason)
	case r.reason != "STOP" && !slices.Contains(failedReasons, r.reason):
		return chat.UnknownReason(r.reason)
	case r.s.HasToolCalls():
		r.s.Finish(schemas.StopToolUse)
	case r.reason == "STOP":
		r.s.Finish(schemas.StopStop)
	default:
		return errUnknown
	}
	return nil
}
