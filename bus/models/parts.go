package models

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// parts splits a payload into parts that fit in one message each.
func parts(nc *nats.Conn, payload []byte) [][]byte {
	size := max(int(nc.MaxPayload())-natsio.HeaderRoom, 1)
	if len(payload) <= size {
		return [][]byte{payload}
	}
	return slices.Collect(slices.Chunk(payload, size))
}

// partMsg returns message number seq of one direction of a model call. more is true if the payload continues in the
// next message.
func partMsg(subject, reply string, seq uint64, more bool, data []byte) *nats.Msg {
	m := &nats.Msg{Subject: subject, Reply: reply, Data: data, Header: nats.Header{
		schemas.HeaderModelSeq: {strconv.FormatUint(seq, 10)},
	}}
	if more {
		m.Header[schemas.HeaderModelMore] = []string{"1"}
	}
	return m
}

// partWriter sends payloads in numbered messages. It may be used concurrently: the parts of a payload are not mixed
// with those of another.
type partWriter struct {
	nc             *nats.Conn
	subject, reply string

	mu  sync.Mutex
	seq uint64 // number of the last message
}

func (w *partWriter) write(payload []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := parts(w.nc, payload)
	for i, part := range all {
		w.seq++
		if err := w.nc.PublishMsg(partMsg(w.subject, w.reply, w.seq, i < len(all)-1, part)); err != nil {
			return err
		}
	}
	return nil
}

// partReader joins the parts of payloads, and detects a missing message.
type partReader struct {
	limit int    // maximum bytes of a payload
	last  uint64 // number of the last message
	parts []byte // the parts so far of a payload that is not complete
	err   error  // the first error; it is final
}

// read adds the next message. If the message completes a payload, read returns the payload and whole is true. After an
// error read returns only that error, because a later payload could lack a part.
func (r *partReader) read(m *nats.Msg) (payload []byte, whole bool, err error) {
	if r.err == nil {
		payload, whole, r.err = r.next(m)
	}
	return payload, whole, r.err
}

func (r *partReader) next(m *nats.Msg) (payload []byte, whole bool, err error) {
	seq := m.Header.Get(schemas.HeaderModelSeq)
	if want := strconv.FormatUint(r.last+1, 10); seq != want {
		return nil, false, fmt.Errorf("%w: message %s of the call is missing, %q came", errModelLost, want, seq)
	}
	r.last++
	if len(r.parts)+len(m.Data) > r.limit {
		return nil, false, schemas.NewFailure(schemas.FailureTooLarge,
			fmt.Sprintf("a payload of a model call has more than %d bytes", r.limit))
	}
	if m.Header.Get(schemas.HeaderModelMore) != "" {
		r.parts = append(r.parts, m.Data...)
		return nil, false, nil
	}
	if len(r.parts) == 0 {
		return m.Data, true, nil
	}
	payload, r.parts = append(r.parts, m.Data...), nil
	return payload, true, nil
}
