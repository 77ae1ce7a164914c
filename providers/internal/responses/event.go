package responses

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/providers/internal/failure"
	"github.com/loopbus/loopbus/schemas"
)

// partBreak separates the parts of a summary or of a reasoning text.
const partBreak = "\n\n"

// event holds the members of a stream's events that this package reads.
type event struct {
	Type        string          `json:"type"`
	OutputIndex int             `json:"output_index"`
	PartIndex   int             `json:"content_index"`
	Item        json.RawMessage `json:"item"`
	Part        part            `json:"part"`
	Delta       chat.Text       `json:"delta"`
	Text        chat.Text       `json:"text"`
	Arguments   chat.Text       `json:"arguments"`
	Response    response        `json:"response"`
	Code        string          `json:"code"`
	Message     string          `json:"message"`
	Error       json.RawMessage `json:"error"`
}

type part struct {
	Type    string    `json:"type"`
	Text    chat.Text `json:"text"`
	Refusal chat.Text `json:"refusal"`
}

// content returns the text or the refusal of a part.
func (p part) content() string {
	if p.Type == "refusal" {
		return string(p.Refusal)
	}
	return string(p.Text)
}

// item is an item of a response's output.
type item struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	CallID    string    `json:"call_id"`
	Name      string    `json:"name"`
	Arguments chat.Text `json:"arguments"`
	Phase     string    `json:"phase"`
	Summary   []part    `json:"summary"`
	Content   []part    `json:"content"`
}

func (i item) text() string {
	var b strings.Builder
	for _, p := range i.Content {
		b.WriteString(p.content())
	}
	return b.String()
}

// thoughts returns the summary of a reasoning item or, if it has none, its full text.
func (i item) thoughts() string {
	source := i.Summary
	if len(source) == 0 {
		source = i.Content
	}
	list := make([]string, len(source))
	for n, p := range source {
		list[n] = p.content()
	}
	return strings.Join(list, partBreak)
}

type response struct {
	ID          string `json:"id"`
	Status      string `json:"status"`
	ServiceTier string `json:"service_tier"`
	Usage       *usage `json:"usage"`
	Error       *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

// failure returns the error of a response that failed.
func (r response) failure() error {
	switch {
	case r.Error != nil:
		code, text := r.Error.Code, r.Error.Message
		return failure.New(cmp.Or(code, "unknown")+": "+cmp.Or(text, "no message"), 0, code)
	case r.Incomplete != nil && r.Incomplete.Reason != "":
		return failure.New("incomplete: "+r.Incomplete.Reason, 0, r.Incomplete.Reason)
	}
	return schemas.NewFailure(schemas.FailureUnknown, "Unknown error (no error details in response)")
}

// blocked reports whether the vendor withheld the rest of the reply.
func (r response) blocked() bool {
	return r.Incomplete != nil && r.Incomplete.Reason == "content_filter"
}

type usage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	TotalTokens  int64 `json:"total_tokens"`
	Details      struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
}

func (u usage) tokens() schemas.Usage {
	return schemas.Usage{
		Input: max(0, u.InputTokens-u.Details.CachedTokens), Output: u.OutputTokens, CacheRead: u.Details.CachedTokens,
		TotalTokens: u.TotalTokens,
	}
}
