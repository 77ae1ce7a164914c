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

// blockedError says what the vendor did not want to read or to say.
func blockedError(text string) error { return schemas.NewFailure(schemas.FailureRefused, text) }

// withheld are the finish reasons of a reply that the vendor does not want to give.
var withheld = []string{"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
	"IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"}

// spoilt are the other finish reasons that the vendor has for a reply that came to nothing.
var spoilt = []string{"FINISH_REASON_UNSPECIFIED", "OTHER", "LANGUAGE", "MALFORMED_FUNCTION_CALL",
	"UNEXPECTED_TOOL_CALL", "NO_IMAGE", "IMAGE_OTHER"}

// chunk is an event of the stream.
type chunk struct {
	Candidates []struct {
		Content struct {
			Parts []outputPart `json:"parts"`
		} `json:"content"`
		FinishReason string `json:"finishReason"`
	} `json:"candidates"`
	PromptFeedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	UsageMetadata *usage          `json:"usageMetadata"`
	ResponseID    string          `json:"responseId"`
	Error         json.RawMessage `json:"error"`
}

type outputPart struct {
	Text             *chat.Text `json:"text"`
	Thought          bool       `json:"thought"`
	ThoughtSignature string     `json:"thoughtSignature"`
	FunctionCall     *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
}

type usage struct {
	Prompt     int64 `json:"promptTokenCount"`
	Cached     int64 `json:"cachedContentTokenCount"`
	Candidates int64 `json:"candidatesTokenCount"`
	Thoughts   int64 `json:"thoughtsTokenCount"`
	Total      int64 `json:"totalTokenCount"`
}

func (u usage) tokens() schemas.Usage {
	return schemas.Usage{
		Input: max(0, u.Prompt-u.Cached), Output: u.Candidates + u.Thoughts, CacheRead: u.Cached, TotalTokens: u.Total,
	}
}

// reader makes blocks of the events of a stream.
type reader struct {
	s       *assemble.Stream
	block   *assemble.Block // text or thinking under way
	ids     map[string]bool
	stamp   int64 // in made-up ids
	reason  string
	blocked string // why the prompt was
}

// newReader returns a reader. now is in milliseconds: calls without an id get one of it.
func newReader(s *assemble.Stream, now int64) *reader {
	return &reader{s: s, ids: map[string]bool{}, stamp: now}
}

// Read reads the whole body.
func (r *reader) Read(body io.Reader) error {
	events := sse.NewDecoder(body)
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

// event takes an event. One that does not begin with its data is not the vendor's; the JSON of an error may come as it
// is.
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
		return failed(data, c.Error)
	}
	r.s.Alive()
	if r.s.ResponseID() == "" {
		r.s.SetResponseID(c.ResponseID)
	}
	if c.UsageMetadata != nil {
		r.s.SetUsage(c.UsageMetadata.tokens())
	}
	if c.PromptFeedback.BlockReason != "" {
		r.blocked = c.PromptFeedback.BlockReason
	}
	if len(c.Candidates) == 0 {
		return nil
	}
	for _, p := range c.Candidates[0].Content.Parts {
		r.part(p)
	}
	if reason := c.Candidates[0].FinishReason; reason != "" {
		r.reason = reason
	}
	return nil
}

// failed is the error that an event tells of.
func failed(data, object json.RawMessage) error {
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

// text continues the block under way, or begins another where thinking ends or begins.
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

// id returns the vendor's id of a call, or one of our own where it has none or has been there already.
func (r *reader) id(given, name string) string {
	id := given
	for n := len(r.ids) + 1; id == "" || r.ids[id]; n++ {
		id = fmt.Sprintf("%s_%d_%d", name, r.stamp, n)
	}
	r.ids[id] = true
	return id
}

// end says how the reply ended.
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
	case r.reason != "STOP" && !slices.Contains(spoilt, r.reason):
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
