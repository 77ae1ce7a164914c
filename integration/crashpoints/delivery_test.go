package crashpoints_test

import (
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/integration/internal/wire"
	"github.com/loopbus/loopbus/schemas"
)

// delivery is a message that the server has handed to a runner or, with a call, to a worker.
type delivery struct {
	session string
	seq     uint64 // in the stream
	command schemas.Command
	call    string
}

// deliveryOf reads a message that came from a consumer of the inbox or of the tool calls.
func deliveryOf(m *wire.Message) (d delivery, ok bool) {
	seq, ok := streamSeq(m.Reply)
	if !ok {
		return d, false
	}
	if _, session, call, err := subjects.ParseTool(m.Subject); err == nil {
		return delivery{session: session, seq: seq, call: call}, true
	}
	session, kind, err := subjects.ParseCommand(m.Subject)
	if err != nil {
		return d, false
	}
	header := nats.Header{}
	if len(m.Header) > 0 {
		if header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			return d, false
		}
	}
	command, err := bus.DecodeCommand(session, kind, header, m.Data, "none", time.Time{})
	return delivery{session: session, seq: seq, command: command}, err == nil
}

// streamSeq reads the sequence in the stream off the reply subject of a delivery, in either of its two forms:
// $JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>. ... with or without <domain>.<account> before the stream.
func streamSeq(reply string) (uint64, bool) {
	tokens := strings.Split(reply, ".")
	if len(tokens) < 9 || tokens[0] != "$JS" || tokens[1] != "ACK" {
		return 0, false
	}
	at := 5
	if len(tokens) > 9 {
		at = 7
	}
	seq, err := strconv.ParseUint(tokens[at], 10, 64)
	return seq, err == nil
}
