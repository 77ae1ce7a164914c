package inbox

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/inbox/reader"
)

const (
	// maxHeld is how many bytes of payloads and headers are kept of what is in flight. Of messages beyond that only what
	// they are is kept, and the rest is read again when they begin: a queue may have tens of thousands of them, half a
	// megabyte each.
	maxHeld = 64 << 20
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
	held    int64 // bytes that count
	lacks   bool  // header and data were let go
}

// read puts header and payload into a body that lacks them. Only the delivery under way calls it.
func (b *body) read(encoded, data []byte) {
	if !b.lacks {
		return
	}
	if len(encoded) > 0 {
		header, err := nats.DecodeHeadersMsg(encoded)
		if err != nil {
			return // it cannot be delivered, and says so
		}
		b.header = header
	}
	b.data, b.lacks = data, false
}

// payloads counts the bytes kept of what is in flight.
type payloads struct {
	most int64
	held atomic.Int64
}

func (p *payloads) keep(b *body) {
	size := int64(len(b.data))
	for name, values := range b.header {
		for _, v := range values {
			size += int64(len(name) + len(v))
		}
	}
	switch {
	case size <= smallPayload:
	case p.held.Load()+size <= p.most:
		b.held = size
		p.held.Add(size)
	default:
		b.header, b.data, b.lacks = nil, nil, true
	}
}

// Keep is called with the reader's lock held.
func (h handler) Keep(m *reader.Message) { h.payloads.keep(m.Body.(*body)) }

// Release counts a message's payload no more.
func (h handler) Release(m *reader.Message) { h.payloads.held.Add(-m.Body.(*body).held) }
