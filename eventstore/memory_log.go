package eventstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// MemoryLog is the log of one session in a [Memory]. It promises what [Log] does; an event is stored when Append
// returns.
type MemoryLog struct {
	m       *Memory
	session string

	mu   sync.Mutex
	head position
	hash string
	err  error
}

// Append is [Log.Append].
func (l *MemoryLog) Append(_ context.Context, e schemas.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if e.Session != l.session {
		return fmt.Errorf("eventstore: append to session %s: event is of session %q", l.session, e.Session)
	}
	if e.Seq != l.head.seq+1 {
		return fmt.Errorf("eventstore: append to session %s: event has sequence %d, next is %d", l.session, e.Seq, l.head.seq+1)
	}
	e.PrevHash = l.hash
	header, payload, err := schemas.EncodeEvent(e)
	if err != nil {
		return fmt.Errorf("eventstore: append session %s seq %d: %w", l.session, e.Seq, err)
	}
	l.err = l.store(e, record{header: header, payload: payload})
	return l.err
}

func (l *MemoryLog) store(e schemas.Event, rec record) error {
	if err := l.hook(e, false); err != nil {
		return err
	}
	stream, err := l.m.put(l.session, e.Seq, l.head.stream, rec)
	if err != nil {
		return err
	}
	l.head, l.hash = position{e.Seq, stream}, rec.hash()
	return l.hook(e, true)
}

func (l *MemoryLog) hook(e schemas.Event, stored bool) error {
	if l.m.OnAppend == nil {
		return nil
	}
	if err := l.m.OnAppend(e, stored); err != nil {
		return fmt.Errorf("eventstore: append session %s seq %d: %w", l.session, e.Seq, err)
	}
	return nil
}

// Flush returns the error that ended the log, if any: what was appended is stored.
func (l *MemoryLog) Flush(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Confirm is [Log.Confirm].
func (l *MemoryLog) Confirm(context.Context, time.Time) error {
	recs := l.m.records(l.session)
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(recs); l.err == nil && n > 0 && recs[n-1].stream > l.head.stream {
		l.err = &schemas.ConflictError{Session: l.session, Seq: l.head.seq + 1}
	}
	return l.err
}

// Close is [Log.Close].
func (l *MemoryLog) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = fmt.Errorf("eventstore: session %s: %w", l.session, ErrClosed)
	}
}

// Read is [Log.Read].
func (l *MemoryLog) Read(ctx context.Context, from uint64) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		recs := l.m.records(l.session)
		l.mu.Lock()
		head := l.head
		l.mu.Unlock()
		end, _ := slices.BinarySearchFunc(recs, head.stream+1, func(r record, s uint64) int { return int(r.stream) - int(s) })
		decodeAll(ctx, l.session, recs[:end], 0, from, yield)
	}
}

// Snapshot is [Log.Snapshot].
func (l *MemoryLog) Snapshot(ctx context.Context, version int) (state []byte, seq uint64, err error) {
	h, state, err := memorySource{l.m}.loadSnapshot(ctx, l.session, version)
	if errors.Is(err, errBadSnapshot) || h.Seq == 0 {
		return nil, 0, nil
	}
	recs := l.m.records(l.session)
	if h.Seq > uint64(len(recs)) || recs[h.Seq-1].hash() != h.Hash {
		return nil, 0, nil
	}
	return state, h.Seq, err
}

// SaveSnapshot is [Log.SaveSnapshot].
func (l *MemoryLog) SaveSnapshot(_ context.Context, version int, seq uint64, state []byte) error {
	recs := l.m.records(l.session)
	if seq == 0 || seq > uint64(len(recs)) {
		return fmt.Errorf("eventstore: save snapshot of session %s version %d seq %d: the log ends at %d",
			l.session, version, seq, len(recs))
	}
	h := snapshotHeader{Version: version, Seq: seq, Stream: recs[seq-1].stream, Hash: recs[seq-1].hash()}
	value, _, err := encodeSnapshot(h, l.session, state, math.MaxInt)
	if err != nil {
		return fmt.Errorf("eventstore: save snapshot of session %s version %d seq %d: %w", l.session, version, seq, err)
	}
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.m.snapshots[snapshotKey(l.session, version)] = value
	return nil
}

type memorySource struct{ m *Memory }

func (s memorySource) all(_ context.Context, session string) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		for _, rec := range s.m.records(session) {
			if !yield(rec, nil) {
				return
			}
		}
	}
}

func (s memorySource) fetchBlob(ctx context.Context, ref string) ([]byte, error) {
	return noBlobs(ctx, ref)
}

func (s memorySource) loadSnapshot(_ context.Context, session string, version int) (snapshotHeader, []byte, error) {
	s.m.mu.Lock()
	value, ok := s.m.snapshots[snapshotKey(session, version)]
	s.m.mu.Unlock()
	if !ok {
		return snapshotHeader{}, nil, nil
	}
	h, stored, err := decodeSnapshot(value)
	if err == nil {
		stored, err = h.unpack(stored)
	}
	if err != nil {
		return h, nil, fmt.Errorf("%w: %w", errBadSnapshot, err)
	}
	return h, bytes.Clone(stored), nil
}
