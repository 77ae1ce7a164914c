package schemas

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// JSON can only hold valid UTF-8: what is not is replaced when it is written. Models and tools that run in the same
// process do not go through JSON before their words enter the state, so they have to be mended first, or the state that
// was and the state that is replayed would differ.

// ValidReply returns the reply with everything in valid UTF-8, with arguments that an event can hold, {} in place of
// those that are nested too deep, and with a usage that can be ([Usage.Clamped]); the same reply if nothing is to be
// mended.
func ValidReply(m *AssistantMessage) *AssistantMessage {
	content := validContents(m.Content)
	if content == nil && m.Usage == m.Usage.Clamped() && utf8.ValidString(m.ErrorMessage) &&
		utf8.ValidString(m.ResponseID) && utf8.ValidString(m.ResponseModel) {
		return m
	}
	mended := *m
	if content != nil {
		mended.Content = content
	}
	mended.Usage = m.Usage.Clamped()
	mended.ErrorMessage = valid(m.ErrorMessage)
	mended.ResponseID, mended.ResponseModel = valid(m.ResponseID), valid(m.ResponseModel)
	return &mended
}

// ValidResult returns the result with everything in valid UTF-8, and without details that are nested deeper than an
// event can hold.
func ValidResult(r ToolResult) ToolResult {
	if content := validContents(r.Content); content != nil {
		r.Content = content
	}
	if tooDeep(r.Details, maxNested) {
		r.Details = nil
	} else if !utf8.Valid(r.Details) {
		r.Details = bytes.ToValidUTF8(r.Details, []byte("\uFFFD"))
	}
	return r
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// validContents returns the mended blocks, or nil if there is nothing to mend.
func validContents(cs Contents) Contents {
	var mended Contents
	for i, c := range cs {
		v, changed := validContent(c)
		if changed && mended == nil {
			mended = append(Contents(nil), cs...)
		}
		if changed {
			mended[i] = v
		}
	}
	return mended
}

func validContent(c Content) (Content, bool) {
	var changed bool
	mend := func(s string) string {
		if utf8.ValidString(s) {
			return s
		}
		changed = true
		return valid(s)
	}
	switch b := c.(type) {
	case Text:
		c = Text{mend(b.Text), mend(b.TextSignature)}
	case Thinking:
		c = Thinking{mend(b.Thinking), mend(b.ThinkingSignature), b.Redacted}
	case Image:
		c = Image{mend(b.Data), mend(b.MimeType)}
	case ToolCall:
		if tooDeep(b.Arguments, maxNested) {
			b.Arguments, changed = []byte("{}"), true
		}
		c = ToolCall{mend(b.ID), mend(b.Name), []byte(mend(string(b.Arguments))), mend(b.ThoughtSignature)}
	}
	return c, changed
}
