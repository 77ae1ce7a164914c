package bedrockconversestream

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/loopbus/loopbus/providers/internal/held"
	"github.com/loopbus/loopbus/providers/internal/sse"
	"github.com/loopbus/loopbus/schemas"
)

// Limits of a frame in bytes. The SDK's decoder trusts the length that a frame states, and its time for headers is
// quadratic in their number.
const (
	maxFrame   = sse.MaxEvent
	maxHeaders = 4 << 10
	keptBuffer = 16 << 10 // buffer kept between frames
)

// frames reads the frames of a body.
type frames struct {
	in      *bufio.Reader
	decoder *eventstream.Decoder
	payload []byte // the buffer of the previous frame, which the next one reuses
	share   *held.Share
}

// newFrames returns a reader whose long frames are counted in share.
func newFrames(body io.Reader, share *held.Share) *frames {
	return &frames{in: bufio.NewReaderSize(body, 32<<10), decoder: eventstream.NewDecoder(), share: share}
}

func (f *frames) close() { f.share.Release() }

// next returns the next frame, which is valid until the next call. Its payload is within the limits for decoding.
func (f *frames) next() (eventstream.Message, error) {
	f.share.Release() // the frame before, which the caller has no more
	if err := f.checkLengths(); err != nil {
		return eventstream.Message{}, err
	}
	frame, err := f.decoder.Decode(f.in, f.payload[:0])
	if err != nil {
		return frame, err
	}
	if f.payload = frame.Payload; cap(f.payload) > keptBuffer {
		f.payload = nil
	}
	return frame, schemas.CheckValues("a frame of the Bedrock stream", frame.Payload, schemas.MaxReplyValues)
}

// checkLengths returns an error if the lengths that the next frame states exceed the limits, or what all replies may
// have. It ignores bytes that are not a frame; the decoder returns an error for them.
func (f *frames) checkLengths() error {
	prelude, err := f.in.Peek(12)
	if err != nil || binary.BigEndian.Uint32(prelude[8:]) != crc32.ChecksumIEEE(prelude[:8]) {
		return nil
	}
	all, headers := binary.BigEndian.Uint32(prelude), binary.BigEndian.Uint32(prelude[4:])
	if all <= maxFrame && headers <= maxHeaders {
		return f.share.Hold(int(all)) // the decoder allocates what the frame states
	}
	return schemas.NewFailure(schemas.FailureTooLarge, fmt.Sprintf(
		"a frame of the Bedrock stream has %d bytes, %d of them of headers: over %d or %d", all, headers, maxFrame,
		maxHeaders))
}
