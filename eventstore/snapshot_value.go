package eventstore

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// snapshotHeader is the first line of a snapshot's value; the state follows. It names the last event that the state
// includes by sequence, place in the stream and hash, which no other history of the session has.
type snapshotHeader struct {
	Version int    `json:"version"` // of the fold
	Seq     uint64 `json:"seq"`
	Stream  uint64 `json:"streamSeq"`
	Hash    string `json:"hash"`
	Gzip    bool   `json:"gzip,omitempty"`
	Object  string `json:"object,omitempty"` // name of the object with the state; "" if the state follows here
	Digest  string `json:"digest"`           // SHA-256 of the state as stored
}

// maxState is the size in bytes of the largest state that is saved and read. A state has the session's context, and up
// to 32 MiB of queued inputs.
const maxState = 256 << 20

// compressAbove is the size in bytes from which compressing a state saves space.
const compressAbove = 1 << 10

func snapshotKey(session string, version int) string { return session + ".v" + strconv.Itoa(version) }

// snapshotObjectName is the name of the object with a state that is too large for its key.
func snapshotObjectName(key string) string { return "snapshot." + key }

// encodeSnapshot returns a snapshot's value and, if the state is larger than limit, the object with it.
func encodeSnapshot(h snapshotHeader, session string, state []byte, limit int) (value, object []byte, err error) {
	if len(state) > maxState {
		return nil, nil, fmt.Errorf("state has %d bytes, more than %d", len(state), maxState)
	}
	if len(state) > compressAbove {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(state); err != nil {
			return nil, nil, err
		}
		if err := w.Close(); err != nil {
			return nil, nil, err
		}
		state, h.Gzip = b.Bytes(), true
	}
	h.Digest = digestOf(state)
	if len(state) > limit {
		h.Object = snapshotObjectName(snapshotKey(session, h.Version))
		object, state = state, nil
	}
	line, err := json.Marshal(h)
	if err != nil {
		return nil, nil, err
	}
	value = append(line, '\n')
	return append(value, state...), object, nil
}

// errNoHeader is the error of a value that is no snapshot, such as an answer of a NATS server that a client directed
// there.
var errNoHeader = errors.New("no header line")

func decodeSnapshot(value []byte) (h snapshotHeader, stored []byte, err error) {
	line, stored, ok := bytes.Cut(value, []byte("\n"))
	if !ok {
		return h, nil, errNoHeader
	}
	return h, stored, json.Unmarshal(line, &h)
}

// unpack returns the state from its stored form.
func (h snapshotHeader) unpack(stored []byte) ([]byte, error) {
	if got := digestOf(stored); got != h.Digest {
		return nil, fmt.Errorf("state has the SHA-256 %s instead of %s", got, h.Digest)
	}
	if !h.Gzip {
		return stored, nil
	}
	size, err := inflate(io.Discard, stored) // before allocating: a few bytes may inflate to many
	if err != nil {
		return nil, err
	}
	state := bytes.NewBuffer(make([]byte, 0, size))
	_, err = inflate(state, stored)
	return state.Bytes(), err
}

// inflate writes the decompressed state. It fails if that is larger than maxState.
func inflate(w io.Writer, stored []byte) (size int64, err error) {
	r, err := gzip.NewReader(bytes.NewReader(stored))
	if err != nil {
		return 0, err
	}
	size, err = io.Copy(w, io.LimitReader(r, maxState+1))
	if err == nil && size > maxState {
		err = fmt.Errorf("state has more than %d bytes", maxState)
	}
	return size, errors.Join(err, r.Close())
}
