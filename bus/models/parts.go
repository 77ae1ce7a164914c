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

// parts cuts a payload into what one message can carry.
func parts(nc *nats.Conn, payload []byte) [][]byte {
	size := max(int(nc.MaxPayload())-natsio.HeaderRoom, 1)
	if len(payload) <= size {
		return [][]byte{payload}
	}
	return slices.Collect(slices.Chunk(payload, size))
}

// partMsg is message number seq of one direction of a model call.
func partMsg(subject, reply string, seq uint64, more bool, data []byte) *nats.Msg {
	m := &nats.Msg{Subject: subject, Reply: reply, Data: data, Header: nats.Header{
		schemas.HeaderModelSeq: {strconv.FormatUint(seq, 10)},
	}}
	if more {
		m.Header[schemas.HeaderModelMore] = []string{"1"}
	}
	return m
}

// partWriter sends payloads in numbered messages. It may be used concurrently: a payload's parts stay together.
type partWriter struct {
	nc             *nats.Conn
	subject, reply string

	mu  sync.Mutex
	seq uint64 // of the last message
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

// partReader puts payloads together again, and knows when a message is missing.
type partReader struct {
	limit int // bytes of a payload
	last  uint64
	parts []byte // parts of a payload that is not whole yet
	err   error  // what ended the reading
}

// read takes the next message. whole says that payload is complete; else more of it is to come. Behind an error there
// is nothing but the error: what came later would be put together with a hole in it.
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
