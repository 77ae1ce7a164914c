package assemble

import (
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// blockSize is about how many bytes a block uses besides its texts.
const blockSize = 256

// small is the size of texts and replies, in bytes, of which there may be many.
const small = 64 << 10

// maxBlocks limits the blocks of a reply, whatever their kind: an empty block uses memory too.
const maxBlocks = 10_000

// countBlock counts a block before it is opened. It reports whether the reply is within its limits.
func (s *Stream) countBlock(b *Block) bool {
	if b.kind == schemas.ContentToolCall {
		s.calls++
	}
	switch {
	case s.calls > s.limits.Calls:
		s.exceed("the reply has more than %d tool calls", s.limits.Calls)
	case len(s.blocks) >= maxBlocks:
		s.exceed("the reply has more than %d blocks", maxBlocks)
	}
	return s.grow(schemas.QuotedSize(b.id) + schemas.QuotedSize(b.name))
}

// grow counts n bytes that are to be added to the block's text, and how many they are as JSON. It reports whether the
// reply is within its limits.
func (b *Block) grow(n, quoted int) bool {
	if b.kind == schemas.ContentToolCall && int64(b.text.Len()+n) > b.s.limits.Arguments {
		b.s.exceed("the arguments of a tool call have more than %d bytes", b.s.limits.Arguments)
	}
	return b.s.grow(quoted)
}

// grow counts n bytes of JSON that are to be added to the reply. It reports whether the reply is within its limits.
func (s *Stream) grow(n int) bool {
	s.grew = s.grew || n > 0
	s.progressed = s.progressed || n > 0
	return s.Keep(n)
}

// Keep counts n bytes of the vendor's that are not part of the reply and that the API package keeps until its end. It
// reports whether the reply is within its limits.
func (s *Stream) Keep(n int) bool {
	if s.size += int64(n); s.size > s.limits.Reply {
		s.exceed("the reply has more than %d bytes", s.limits.Reply)
	}
	if err := s.held.Hold(int(s.size) + blockSize*len(s.blocks)); err != nil {
		s.stop(err)
	}
	return s.exceeded == nil
}

// set counts value, and assigns it to *text, a field of the reply, if the reply is within its limits.
func (s *Stream) set(text *string, value string) {
	if s.grow(schemas.QuotedSize(value) - schemas.QuotedSize(*text)) {
		*text = value
	}
}

// shorten cuts an error text that a vendor sent in a stream to the limit for the body of a failed response.
func (s *Stream) shorten(text string) string {
	most := s.limits.ErrorBody
	if int64(len(text)) <= most {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes in all)", strings.ToValidUTF8(text[:most], ""), len(text))
}

// countValues counts the JSON values of a call's arguments. It reports whether the reply is within its limit.
func (s *Stream) countValues(arguments []byte) bool {
	if s.values += schemas.CountValues(arguments); s.values > schemas.MaxReplyValues {
		s.exceed("the arguments of the tool calls have more than %d JSON values", schemas.MaxReplyValues)
		return false
	}
	return true
}

// exceed ends the stream with the code too_large. Nothing more is read or added to the reply.
func (s *Stream) exceed(format string, limit int64) {
	s.stop(schemas.NewFailure(schemas.FailureTooLarge, fmt.Sprintf(format, limit)))
}

// stop ends the stream with the first of these errors.
func (s *Stream) stop(err error) {
	if s.exceeded == nil {
		s.exceeded = err
		s.cancel(err)
	}
}
