package inbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
)

const (
	keepTooLarge = 64 << 10 // bytes of a payload over schemas.MaxCommandBytes that its dead letter keeps
	smallPayload = 1 << 10  // up to which a payload is not dropped
	// largePayload is the size beyond which a payload is not in memory while its session waits for memory, nor once its
	// command is.
	largePayload = 64 << 10
	// headerSize is about what a header takes beside its name and values.
	headerSize = 128
	// pullMessages is how many messages the NATS client may have buffered that the inbox has not received.
	pullMessages = 256
)

var errDropped = errors.New("inbox: the message could not be read again")

// body is what the inbox keeps of a message in flight.
type body struct {
	subject string
	stored  time.Time
	header  nats.Header
	data    []byte
	large   bool // header and data have more than largePayload, or are an input by reference
	dropped bool // header and data have to be read again
	garbled bool // the header could not be decoded
	keep    int  // bytes of data that the dead letter keeps, 0 for all

	endTurn func() // of the input that it refers to; nil if it has none
}

// done ends the turn of the input, once its command is in the log or is not carried out now. To call done again does
// nothing.
func (b *body) done() {
	if b.endTurn != nil {
		b.endTurn()
	}
}

// foreign returns why a message is not one that a client has sent to the inbox, "" if it is.
func (b *body) foreign() string {
	if b.garbled { // the header may contain what a server has added
		return "its header cannot be read"
	}
	if stream := b.header.Get(jetstream.StreamHeader); stream != "" { // a consumer does not add this header
		return fmt.Sprintf("it is a message that the stream %.40q had", stream)
	}
	return ""
}

// DropPayload drops header and data if they are large. [queue.Refetch] reads them again.
func (b *body) DropPayload() bool {
	if b.size() > smallPayload {
		b.header, b.data, b.dropped = nil, nil, true
	}
	return b.dropped
}

// size is about the memory of header and data.
func (b *body) size() int {
	n := len(b.data)
	for name, values := range b.header {
		n += headerSize + len(name)
		for _, v := range values {
			n += len(v)
		}
	}
	return n
}

// restore sets the header and data of a body that has dropped them. Only the goroutine of the delivery calls it.
func (b *body) restore(m natsio.Stored) {
	if b.dropped {
		b.header, b.garbled, b.data, b.dropped = m.Header, m.Unreadable, m.Data, false
	}
}
