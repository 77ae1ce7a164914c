package bedrockconversestream

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/loopbus/loopbus/providers/internal/sse"
	"github.com/loopbus/loopbus/schemas"
)

// What a frame may have, in bytes. The SDK's decoder believes what a frame says of its own length, and looks for each
// header among all those before it.
const (
	maxFrame   = sse.MaxEvent
	maxHeaders = 4 << 10
	keptBuffer = 256 << 10 // memory that stays with the reader between frames
)

// frames reads the frames of a body.
type frames struct {
	in      *bufio.Reader
	decoder *eventstream.Decoder
	payload []byte // memory of the frame before
}

func newFrames(body io.Reader) *frames {
	return &frames{in: bufio.NewReaderSize(body, 32<<10), decoder: eventstream.NewDecoder()}
}

// next returns the next frame, which is valid until the call after. Its payload may be decoded.
func (f *frames) next() (eventstream.Message, error) {
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

// checkLengths looks at how long the next frame says that it is. What is no frame at all is for the decoder to say.
func (f *frames) checkLengths() error {
	prelude, err := f.in.Peek(12)
	if err != nil || binary.BigEndian.Uint32(prelude[8:]) != crc32.ChecksumIEEE(prelude[:8]) {
		return nil
	}
	all, headers := binary.BigEndian.Uint32(prelude), binary.BigEndian.Uint32(prelude[4:])
	if all <= maxFrame && headers <= maxHeaders {
		return nil
	}
	return schemas.NewFailure(schemas.FailureTooLarge, fmt.Sprintf(
		"a frame of the Bedrock stream has %d bytes, %d of them of headers: over %d or %d", all, headers, maxFrame,
		maxHeaders))
}
