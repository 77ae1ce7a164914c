package crashpoints_test

import (
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/integration/internal/wire"
	"github.com/loopbus/loopbus/schemas"
)

// delivery is a message that the server has delivered to a runner or, if call is set, to a worker.
type delivery struct {
	session string
	seq     uint64 // in the stream
	command schemas.Command
	call    string
	tool    string // of the call
	count   uint64 // number of deliveries of the message, including this one
}

// deliveryOf parses a message from a consumer of the inbox or of the tool calls.
func deliveryOf(m *wire.Message) (d delivery, ok bool) {
	seq, ok := streamSeq(m.Reply)
	if !ok {
		return d, false
	}
	if queue, session, call, err := subjects.ParseTool(m.Subject); err == nil {
		count, ok := ackToken(m.Reply, deliveriesAt)
		return delivery{session: session, seq: seq, call: call, tool: queue.Tool, count: count}, ok
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
	command, err := codec.DecodeCommand(session, kind, header, m.Data, "none", time.Time{})
	return delivery{session: session, seq: seq, command: command}, err == nil
}

// Where the numbers of a delivery's reply subject are: $JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>. ...
const deliveriesAt, sequenceAt = 4, 5

// streamSeq returns the stream sequence in the reply subject of a delivery.
func streamSeq(reply string) (uint64, bool) { return ackToken(reply, sequenceAt) }

// ackToken returns a number in the reply subject of a delivery, in either of its two forms: with or without
// <domain>.<account> before the stream.
func ackToken(reply string, at int) (uint64, bool) {
	tokens := strings.Split(reply, ".")
	if len(tokens) < 9 || tokens[0] != "$JS" || tokens[1] != "ACK" {
		return 0, false
	}
	if len(tokens) > 9 {
		at += 2
	}
	n, err := strconv.ParseUint(tokens[at], 10, 64)
	return n, err == nil
}
