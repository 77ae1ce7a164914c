package inbox

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	maxCommandBytes = 512 << 10 // of a command's payload
	// smallPayload is never let go.
	smallPayload = 1 << 10
	// pullMessages is how many messages the client's library may have received that the inbox has not: 128 MiB at most.
	pullMessages = 256
)

var errNotRead = errors.New("inbox: the message could not be read again")

// body is what is kept of a message in flight.
type body struct {
	subject string
	stored  time.Time
	header  nats.Header
	data    []byte
	lacks   bool // header and data were let go
	garbled bool // it has a header that nobody can read
}

// LetGo lets go what is large. The look whether the message is still stored, which a message that has waited gets
// anyway, reads it again.
func (b *body) LetGo() bool {
	size := len(b.data)
	for name, values := range b.header {
		for _, v := range values {
			size += len(name) + len(v)
		}
	}
	if size > smallPayload {
		b.header, b.data, b.lacks = nil, nil, true
	}
	return b.lacks
}

// read puts header and payload into a body that lacks them. Only the delivery under way calls it.
func (b *body) read(encoded, data []byte) {
	if !b.lacks {
		return
	}
	if len(encoded) > 0 {
		header, err := nats.DecodeHeadersMsg(encoded)
		b.header, b.garbled = header, err != nil
	}
	b.data, b.lacks = data, false
}
