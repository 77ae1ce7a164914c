package eventstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// record is a message of a log as it is stored: event, or whatever somebody else put there.
type record struct {
	stream  uint64 // sequence in the stream
	header  map[string][]string
	payload []byte
}

// recordOf reads a message that a direct get or the republishing server delivered.
func recordOf(m *nats.Msg) (record, error) {
	seq, err := strconv.ParseUint(first(m.Header, jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return record{}, fmt.Errorf("message on %s without a stream sequence: %w", m.Subject, err)
	}
	return record{stream: seq, header: m.Header, payload: m.Data}, nil
}

func (r record) hash() string { return schemas.Hash(r.header, r.payload) }

// seqOf returns the sequence of the record as an event of the session.
func (r record) seqOf(session string) (uint64, error) {
	id := first(r.header, schemas.HeaderID)
	tail, ok := strings.CutPrefix(id, session+"/")
	seq, err := strconv.ParseUint(tail, 10, 64)
	if !ok || err != nil || seq == 0 {
		return 0, fmt.Errorf("%w: message %d of the stream has the id %q, which is no event of session %s",
			ErrDamaged, r.stream, id, session)
	}
	return seq, nil
}

// time returns the time of the event, that is its writer's; zero if it has none.
func (r record) time() time.Time {
	t, _ := time.Parse(time.RFC3339Nano, first(r.header, schemas.HeaderTime))
	return t
}

// prev returns the stream sequence that the append of the record expected to be the session's last.
func (r record) prev() (uint64, bool) {
	v, err := strconv.ParseUint(first(r.header, jetstream.ExpectedLastSubjSeqHeader), 10, 64)
	return v, err == nil
}

func first(header map[string][]string, key string) string {
	if v := header[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// decode returns the record as an event, its payload fetched if it is kept elsewhere.
func (r record) decode(ctx context.Context, fetch func(ctx context.Context, ref string) ([]byte, error)) (schemas.Event, error) {
	payload := r.payload
	if ref := schemas.DataRef(r.header); ref != "" {
		var err error
		if payload, err = fetch(ctx, ref); err != nil {
			return schemas.Event{}, err
		}
	}
	e, err := schemas.DecodeEvent(r.header, payload)
	if err != nil {
		return e, fmt.Errorf("%w: message %d of the stream: %w", ErrDamaged, r.stream, err)
	}
	return e, nil
}
