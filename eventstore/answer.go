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

// conflicting reports whether the server refused an append because another message is stored. A replicated stream also
// refuses an append while another one of the subject is in flight, which proves nothing.
func conflicting(err error) bool {
	return natsio.HasCode(err, jetstream.JSErrCodeStreamWrongLastSequence)
}

// unavailable reports whether the server could not answer at the moment, so that the append is worth another attempt.
func unavailable(err error) bool {
	var api *jetstream.APIError
	return natsio.Passing(err) || errors.As(err, &api) && api.Code >= 500
}

var errAnswer = errors.New("answer is no acknowledgement")

// parseAck returns the stream sequence of an acknowledged append, or the server's refusal.
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

// plainAck parses the acknowledgement in the form that every server writes, {"stream":"X","seq":N}, in a tenth of the
// time of a JSON decoder. ok is false for any other form.
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

// ackInbox receives the answers to all appends of a store. They share one subscription, and a callback takes each
// answer: with a goroutine that waits for it, an answer would cost one more switch of goroutines.
type ackInbox struct {
	prefix string // of the reply subjects, with its dot

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]*Log // by token: appends in flight
}

func newAckInbox(nc *nats.Conn) (*ackInbox, error) {
	a := &ackInbox{prefix: natsio.NewInbox(nc) + ".", waiting: make(map[uint64]*Log)}
	sub, err := nc.Subscribe(a.prefix+"*", a.deliver)
	if err != nil {
		return nil, err
	}
	return a, sub.SetPendingLimits(-1, -1) // bounded by the logs that have an append in flight
}

// expect returns the token of an append that is about to be published, and its reply subject.
func (a *ackInbox) expect(l *Log) (token uint64, reply string) {
	a.mu.Lock()
	a.next++
	token = a.next
	a.waiting[token] = l
	a.mu.Unlock()
	return token, a.prefix + strconv.FormatUint(token, 36)
}

// forget removes a token and returns the log that waited for its answer; nil if none does.
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

// connectionLost tells all logs with an append in flight that its answer may never come.
func (a *ackInbox) connectionLost() {
	a.mu.Lock()
	waiting := a.waiting
	a.waiting = make(map[uint64]*Log)
	a.mu.Unlock()
	for token, l := range waiting {
		l.disconnected(token)
	}
}
