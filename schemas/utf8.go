package schemas

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"
)

// JSON can only hold valid UTF-8: what is not is replaced when it is written. Models and tools that run in the same
// process do not go through JSON before their words enter the state, so they have to be mended first, or the state that
// was and the state that is replayed would differ. A model behind the bus is not checked by a schema either. What is
// mended here an event can hold: [ValidateEvent] takes it.

// ValidReply returns the reply with everything in valid UTF-8, with arguments that an event can hold, {} in place of
// those that are no JSON or nested too deep, with a usage that can be ([Usage.Clamped]), with text in place of blocks
// that no reply may have, and with a stop reason of ours; the same reply if nothing is to be mended.
func ValidReply(m *AssistantMessage) *AssistantMessage {
	content := validContents(m.Content, replyBlock)
	reason, at := validReason(m), min(max(m.Timestamp, 0), maxInteger)
	if content == nil && m.Usage == m.Usage.Clamped() && utf8.ValidString(m.ErrorMessage) && m.StopReason == reason &&
		m.Timestamp == at && utf8.ValidString(m.ResponseID) && utf8.ValidString(m.ResponseModel) {
		return m
	}
	mended := *m
	if content != nil {
		mended.Content = content
	}
	mended.Usage, mended.StopReason, mended.Timestamp = m.Usage.Clamped(), reason, at
	mended.ErrorMessage = valid(m.ErrorMessage)
	mended.ResponseID, mended.ResponseModel = valid(m.ResponseID), valid(m.ResponseModel)
	return &mended
}

// validReason is the stop reason of a reply; of one whose reason nobody knows it is what the loop makes of it.
func validReason(m *AssistantMessage) StopReason {
	switch m.StopReason {
	case StopStop, StopLength, StopToolUse, StopError, StopAborted:
		return m.StopReason
	}
	if len(m.Content.ToolCalls()) > 0 {
		return StopToolUse
	}
	return StopStop
}

// ValidResult returns the result with everything in valid UTF-8, without details that are no JSON or nested deeper than
// an event can hold, and with text in place of blocks that no result may have.
func ValidResult(r ToolResult) ToolResult {
	if content := validContents(r.Content, resultBlock); content != nil {
		r.Content = content
	}
	if tooDeep(r.Details, maxNested) || len(r.Details) > 0 && !json.Valid(r.Details) {
		r.Details = nil
	} else if !utf8.Valid(r.Details) {
		r.Details = bytes.ToValidUTF8(r.Details, []byte("\uFFFD"))
	}
	return r
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// replyBlock reports whether a reply may have a block.
func replyBlock(c Content) bool {
	switch c.(type) {
	case Text, Thinking, ToolCall:
		return true
	}
	return false
}

var imageType = regexp.MustCompile(`^image/[a-z0-9][a-z0-9.+-]{0,63}$`)

// resultBlock reports whether a result may have a block.
func resultBlock(c Content) bool {
	switch c := c.(type) {
	case Text:
		return true
	case Image:
		_, err := base64.StdEncoding.DecodeString(c.Data)
		return err == nil && c.Data != "" && imageType.MatchString(c.MimeType)
	}
	return false
}

// textNoBlock stands for a block that cannot be where it is.
const textNoBlock = "[left out: content that cannot be here, or a picture that is none]"

// validContents returns the mended blocks, or nil if there is nothing to mend.
func validContents(cs Contents, may func(Content) bool) Contents {
	var mended Contents
	for i, c := range cs {
		v, changed := validContent(c)
		if !may(v) {
			v, changed = Text{Text: textNoBlock}, true
		}
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
		if tooDeep(b.Arguments, maxNested) || len(b.Arguments) > 0 && !json.Valid(b.Arguments) {
			b.Arguments, changed = []byte("{}"), true
		}
		c = ToolCall{mend(b.ID), mend(b.Name), []byte(mend(string(b.Arguments))), mend(b.ThoughtSignature)}
	}
	return c, changed
}
