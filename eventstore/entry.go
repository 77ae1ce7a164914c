package eventstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// entry is an encoded event on its way to the log.
type entry struct {
	seq  uint64
	msg  nats.Msg
	blob []byte // payload that goes to the object store first
	size int
}

// encode returns the message of an event for a log with this subject.
func (s *Store) encode(e schemas.Event, subject string) (*entry, error) {
	header, payload, err := schemas.EncodeEvent(e)
	if err != nil {
		return nil, fmt.Errorf("eventstore: append session %s seq %d: %w", e.Session, e.Seq, err)
	}
	// A slot for what publish fills in: it must not change the map, which is being hashed at that moment.
	header[jetstream.ExpectedLastSubjSeqHeader] = make([]string, 1)
	ent := &entry{seq: e.Seq, msg: nats.Msg{Subject: subject, Header: header, Data: payload}, size: len(payload)}
	if len(payload) > s.o.BlobThreshold {
		ent.blob, ent.msg.Data = payload, nil
		header[schemas.HeaderDataRef] = []string{blobRef(blobName(payload))}
	}
	return ent, nil
}

func (e *entry) hash() string { return schemas.Hash(e.msg.Header, e.msg.Data) }

// expect names the message that must be the session's last.
func (e *entry) expect(stream uint64) {
	e.msg.Header[jetstream.ExpectedLastSubjSeqHeader][0] = strconv.FormatUint(stream, 10)
}

func blobName(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

// CodeWrongLastSequenceInFlight is the server's second code for a refused expectation: a replicated stream has another
// write of the subject under way. The client library has no name for it.
const CodeWrongLastSequenceInFlight jetstream.ErrorCode = 10164

// refused reports whether the server refused an append because the session's last message is another.
func refused(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == CodeWrongLastSequenceInFlight)
}

// unavailable reports whether the server could not answer at the moment, so that the append is worth another try.
func unavailable(err error) bool {
	var api *jetstream.APIError
	return passing(err) || errors.As(err, &api) && api.Code >= 500
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

// plainAck reads the acknowledgement as every server writes it, {"stream":"X","seq":N}, at a tenth of what a JSON decoder
// takes. It leaves everything else to that.
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
