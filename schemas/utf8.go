package schemas

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// JSON can hold only valid UTF-8: encoding replaces everything else. The output of models and tools in the same process
// enters the state without passing through JSON. It has to be corrected before, or the live state and the replayed
// state would differ. No schema validates the output of a model behind the bus either. [ValidateEvent] accepts
// everything that is corrected here.

// ValidReply returns the reply in a form that an event can hold: everything in valid UTF-8; {} in place of arguments
// that are not JSON or nested too deep; a possible usage ([Usage.Clamped]); text in place of blocks that no reply may
// have; a known stop reason; and an error of at most 64 KiB. It returns the same reply if nothing has to change.
func ValidReply(m *AssistantMessage) *AssistantMessage {
	content := validContents(m.Content, replyBlock)
	reason, at := validReason(m), min(max(m.Timestamp, 0), MaxInteger)
	if content == nil && m.Usage == m.Usage.Clamped() && validError(m.ErrorMessage) == m.ErrorMessage &&
		m.StopReason == reason && m.Timestamp == at && utf8.ValidString(m.ResponseID) && utf8.ValidString(m.ResponseModel) {
		return m
	}
	mended := *m
	if content != nil {
		mended.Content = content
	}
	mended.Usage, mended.StopReason, mended.Timestamp = m.Usage.Clamped(), reason, at
	mended.ErrorMessage = validError(m.ErrorMessage)
	mended.ResponseID, mended.ResponseModel = valid(m.ResponseID), valid(m.ResponseModel)
	return &mended
}

// maxError is how many bytes of an error a reply keeps. A failed reply stays in the context of its session, whose size
// is limited, and every model server may fail.
const maxError = 64 << 10

func validError(text string) string {
	if len(text) <= maxError {
		return valid(text)
	}
	end := fmt.Sprintf("… (%d bytes)", len(text))
	return strings.ToValidUTF8(text[:maxError-len(end)], "") + end
}

// validReason returns the stop reason of a reply. For an unknown one it returns what the loop would make of it.
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

// ValidResult returns the result in a form that an event can hold: everything in valid UTF-8; without details that are
// not JSON or nested too deep; and text in place of blocks that no result may have.
func ValidResult(r ToolResult) ToolResult {
	if content := validContents(r.Content, resultBlock); content != nil {
		r.Content = content
	}
	if nestedDeeper(r.Details, maxNested) || len(r.Details) > 0 && !json.Valid(r.Details) {
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

// textNoBlock replaces a block that is not allowed.
const textNoBlock = "[left out: content that cannot be here, or a picture that is none]"

// validContents returns the corrected blocks, or nil if none has to change.
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
		if nestedDeeper(b.Arguments, maxNested) || len(b.Arguments) > 0 && !json.Valid(b.Arguments) {
			b.Arguments, changed = []byte("{}"), true
		}
		c = ToolCall{mend(b.ID), mend(b.Name), []byte(mend(string(b.Arguments))), mend(b.ThoughtSignature), b.Incomplete}
	}
	return c, changed
}
