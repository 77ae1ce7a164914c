package inbox

import (
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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

// slim is a message in flight without its header and payload, until they are read again. Only what it has itself may be
// called.
type slim struct {
	jetstream.Msg // nil

	subject  string
	metadata *jetstream.MsgMetadata
	header   nats.Header
	data     []byte
	read     bool
}

func (m *slim) Subject() string                           { return m.subject }
func (m *slim) Metadata() (*jetstream.MsgMetadata, error) { return m.metadata, nil }
func (m *slim) Headers() nats.Header                      { return m.header }
func (m *slim) Data() []byte                              { return m.data }

// keep sets what is kept of a delivery. mu is held.
func (in *Inbox) keep(f *flight, msg jetstream.Msg, md *jetstream.MsgMetadata) {
	size := len(msg.Data())
	for name, values := range msg.Headers() {
		for _, v := range values {
			size += len(name) + len(v)
		}
	}
	switch {
	case size <= smallPayload:
		f.raw = msg
	case in.held+size <= in.maxHeld:
		f.raw, f.held = msg, size
		in.held += size
	default:
		f.raw = &slim{subject: msg.Subject(), metadata: md}
	}
}

// release counts a flight's payload no more. mu is held.
func (in *Inbox) release(f *flight) {
	in.held -= f.held
	f.held = 0
}

// lacksPayload reports whether a flight has to be read again before it is delivered.
func (f *flight) lacksPayload() bool {
	m, ok := f.raw.(*slim)
	return ok && !m.read
}

// readStored puts header and payload into a flight that lacks them. It replaces the message, which others may look at.
func (in *Inbox) readStored(f *flight, encoded, data []byte) {
	var header nats.Header
	if len(encoded) > 0 {
		var err error
		if header, err = nats.DecodeHeadersMsg(encoded); err != nil {
			return // it cannot be delivered, and says so
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if m, ok := f.raw.(*slim); ok {
		f.raw = &slim{subject: m.subject, metadata: m.metadata, header: header, data: data, read: true}
	}
}

// settler acknowledges a delivery without keeping it.
type settler struct {
	nc    *nats.Conn
	reply string
}

func (in *Inbox) settles(msg jetstream.Msg) settler { return settler{in.conn.NATS(), msg.Reply()} }

// Ack acknowledges without waiting for an answer.
func (s settler) Ack() error { return s.nc.Publish(s.reply, []byte("+ACK")) }
