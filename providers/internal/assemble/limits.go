package assemble

import (
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// maxBlocks is how many blocks a reply may have, of whatever kind: empty ones take memory, too.
const maxBlocks = 10_000

// room counts a block that is to be opened, and reports whether the reply may have it.
func (s *Stream) room(b *Block) bool {
	if b.kind == schemas.ContentToolCall {
		s.calls++
	}
	switch {
	case s.calls > s.limits.Calls:
		s.exceed("the reply has more than %d tool calls", s.limits.Calls)
	case len(s.blocks) >= maxBlocks:
		s.exceed("the reply has more than %d blocks", maxBlocks)
	}
	return s.grow(len(b.id) + len(b.name))
}

// grow counts what is to be added to the block, and reports whether it may be.
func (b *Block) grow(n int) bool {
	if b.kind == schemas.ContentToolCall && int64(b.text.Len()+n) > b.s.limits.Arguments {
		b.s.exceed("the arguments of a tool call have more than %d bytes", b.s.limits.Arguments)
	}
	return b.s.grow(n)
}

// grow counts what is to be added to the reply, and reports whether it may be.
func (s *Stream) grow(n int) bool {
	s.grown = s.grown || n > 0
	if s.size += int64(n); s.size > s.limits.Reply {
		s.exceed("the reply has more than %d bytes", s.limits.Reply)
	}
	return s.over == nil
}

// set gives a text of the reply a value, and counts it.
func (s *Stream) set(text *string, value string) {
	if s.grow(len(value) - len(*text)) {
		*text = value
	}
}

// shortened is the text of an error, of which a vendor may say as much in a stream as in a failing response.
func (s *Stream) shortened(text string) string {
	most := s.limits.ErrorBody
	if int64(len(text)) <= most {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes in all)", strings.ToValidUTF8(text[:most], ""), len(text))
}

// decoded counts the JSON values of a call's arguments, and reports whether the reply may have them.
func (s *Stream) decoded(arguments []byte) bool {
	if s.values += schemas.CountValues(arguments); s.values > schemas.MaxReplyValues {
		s.exceed("the arguments of the tool calls have more than %d JSON values", schemas.MaxReplyValues)
		return false
	}
	return true
}

// exceed ends the stream: nothing more is read or taken in.
func (s *Stream) exceed(format string, limit int64) {
	if s.over == nil {
		s.over = schemas.NewFailure(schemas.FailureTooLarge, fmt.Sprintf(format, limit))
		s.cancel(s.over)
	}
}
