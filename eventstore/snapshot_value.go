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

// snapshotHeader is the first line of a snapshot's value; the state follows. It says at which event the state is, by
// sequence, place in the stream and hash, so that a snapshot of another history is found out.
type snapshotHeader struct {
	Version int    `json:"version"` // of the fold
	Seq     uint64 `json:"seq"`
	Stream  uint64 `json:"streamSeq"`
	Hash    string `json:"hash"`
	Gzip    bool   `json:"gzip,omitempty"`
	Object  string `json:"object,omitempty"` // where the state is in the object store, if it is not here
	Digest  string `json:"digest"`           // SHA-256 of the state as stored
}

// compressAbove is the size from which compressing a state pays.
const compressAbove = 1 << 10

func snapshotKey(session string, version int) string { return session + ".v" + strconv.Itoa(version) }

// snapshotObjectName is the name of the object that has the state of a snapshot which is too large for its key.
func snapshotObjectName(key string) string { return "snapshot." + key }

// encodeSnapshot returns a snapshot's value and, if the state is above limit, what goes to the object store.
func encodeSnapshot(h snapshotHeader, session string, state []byte, limit int) (value, object []byte, err error) {
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

func decodeSnapshot(value []byte) (h snapshotHeader, stored []byte, err error) {
	line, stored, ok := bytes.Cut(value, []byte("\n"))
	if !ok {
		return h, nil, errors.New("no header line")
	}
	return h, stored, json.Unmarshal(line, &h)
}

// unpack returns the state out of what was stored of it.
func (h snapshotHeader) unpack(stored []byte) ([]byte, error) {
	if got := digestOf(stored); got != h.Digest {
		return nil, fmt.Errorf("state has the SHA-256 %s instead of %s", got, h.Digest)
	}
	if !h.Gzip {
		return stored, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(stored))
	if err != nil {
		return nil, err
	}
	state, err := io.ReadAll(r)
	return state, errors.Join(err, r.Close())
}
