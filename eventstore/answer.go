package eventstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// CodeWrongLastSequenceInFlight is the server's second code for a refused expectation: a replicated stream has another
// write of the subject under way. The client library has no name for it.
const CodeWrongLastSequenceInFlight jetstream.ErrorCode = 10164

// refused reports whether the server refused an append because the session's last message is another.
func refused(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == CodeWrongLastSequenceInFlight)
}

// outdated reports whether the server refused an append for a message that is stored, and not for one under way.
func outdated(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}

// unavailable reports whether the server could not answer at the moment, so that the append is worth another try.
func unavailable(err error) bool {
	var api *jetstream.APIError
	return natsio.Passing(err) || errors.As(err, &api) && api.Code >= 500
}

var errAnswer = errors.New("answer is no acknowledgement")

// parseAck returns the stream sequence that an append was given, or the server's refusal.
func parseAck(m *nats.Msg) (stream uint64, err error) {
	if len(m.Data) == 0 && first(m.Header, "Status") == "503" {
		return 0, nats.ErrNoResponders
	}
	if seq, ok := plainAck(m.Data); ok {
		return seq, nil
	}
	var ack struct {
		Seq   uint64              `json:"seq"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		return 0, fmt.Errorf("%w: %w", errAnswer, err)
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	if ack.Seq == 0 {
		return 0, errAnswer
	}
	return ack.Seq, nil
}

// plainAck reads the acknowledgement as every server writes it, {"stream":"X","seq":N}, at a tenth of what a JSON
// decoder takes. It leaves everything else to that.
func plainAck(data []byte) (seq uint64, ok bool) {
	data, ok = bytes.CutPrefix(data, []byte(`{"stream":"`+schemas.StreamEvents+`","seq":`))
	digits, closed := bytes.CutSuffix(data, []byte("}"))
	if !ok || !closed || len(digits) == 0 || len(digits) > 19 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		seq = 10*seq + uint64(c-'0')
	}
	return seq, seq > 0
}

// ackInbox takes the answers to all appends of a store. One subscription for all of them and a callback instead of a
// waiting goroutine each: an answer then costs one switch, to the caller of Flush, as it does for a bare request.
type ackInbox struct {
	nc     *nats.Conn
	prefix string // of the reply subjects, with its dot

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]*Log // by token: appends under way
}

func newAckInbox(nc *nats.Conn) *ackInbox {
	return &ackInbox{nc: nc, prefix: natsio.NewInbox(nc) + ".", waiting: make(map[uint64]*Log)}
}

func (a *ackInbox) subscribe() error {
	sub, err := a.nc.Subscribe(a.prefix+"*", a.deliver)
	if err != nil {
		return err
	}
	return sub.SetPendingLimits(-1, -1) // bounded by the logs that have an append under way
}

// expect returns the token of an append that is about to be published, and the subject to answer to.
func (a *ackInbox) expect(l *Log) (token uint64, reply string) {
	a.mu.Lock()
	a.next++
	token = a.next
	a.waiting[token] = l
	a.mu.Unlock()
	return token, a.prefix + strconv.FormatUint(token, 36)
}

// forget returns the log that waits for an answer, once.
func (a *ackInbox) forget(token uint64) *Log {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.waiting[token]
	delete(a.waiting, token)
	return l
}

func (a *ackInbox) deliver(m *nats.Msg) {
	token, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, a.prefix), 36, 64)
	if err != nil {
		return
	}
	if l := a.forget(token); l != nil {
		l.answered(token, m)
	}
}

// connectionLost wakes all waiters: their answer may never come.
func (a *ackInbox) connectionLost() {
	a.mu.Lock()
	waiting := a.waiting
	a.waiting = make(map[uint64]*Log)
	a.mu.Unlock()
	for token, l := range waiting {
		l.lost(token, nats.ErrDisconnected)
	}
}
