package eventstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// Memory keeps logs in memory, for tests and simulations. It gathers, encodes and hashes events as a [Store] does, and
// behaves like one, except that it is faster and loses everything with the process. It may be used concurrently.
type Memory struct {
	// OnCommit, if set, is called before and after each commit is stored, with its events. An error before prevents the
	// commit from being stored; an error after it simulates a lost acknowledgement. Either is the log's final error.
	OnCommit func(events []schemas.Event, stored bool) error
	// OnAppend, if set, is called like OnCommit for each event of a commit. If it returns an error before an event is
	// stored, the events before that one are stored in a commit of their own, so that a log may end with any event.
	OnAppend func(e schemas.Event, stored bool) error

	mu        sync.Mutex
	stream    uint64 // sequence of the last record of all sessions
	sessions  map[string][]record
	snapshots map[string][]byte
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{sessions: map[string][]record{}, snapshots: map[string][]byte{}}
}

// memoryOptions leave all payloads in the log.
var memoryOptions = Options{BlobThreshold: math.MaxInt}.withDefaults()

// Open opens the log of a session at its head. A session without events opens empty.
func (m *Memory) Open(ctx context.Context, session string) (*Log, error) {
	return openLog(ctx, m, nil, &memoryOptions, session)
}

// records returns the messages of a session. The caller must not change the slice.
func (m *Memory) records(session string) []record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clip(m.sessions[session])
}

// put stores a record if the session's last one has the stream sequence expected, else it returns a
// [schemas.ConflictError].
func (m *Memory) put(session string, seq, expected uint64, rec record) (stream uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	recs := m.sessions[session]
	var last uint64
	if len(recs) > 0 {
		last = recs[len(recs)-1].stream
	}
	if last != expected {
		cause := fmt.Errorf("wrong last sequence: %d", last) // as the server words it
		return 0, &schemas.ConflictError{Session: session, Seq: seq, Cause: cause}
	}
	m.stream++
	rec.stream = m.stream
	m.sessions[session] = append(recs, rec)
	return rec.stream, nil
}

// Read yields the events of a session from the sequence from (1 is the first) up to its head at the moment of the call,
// in order. An error is the last thing yielded.
func (m *Memory) Read(ctx context.Context, session string, from uint64) iter.Seq2[schemas.Event, error] {
	return read(ctx, m, session, from)
}

// Sessions yields all sessions that have a log, by name.
func (m *Memory) Sessions(ctx context.Context) iter.Seq2[SessionInfo, error] {
	return func(yield func(SessionInfo, error) bool) {
		m.mu.Lock()
		names := slices.Sorted(maps.Keys(m.sessions))
		m.mu.Unlock()
		for _, name := range names {
			end, err := endOf(ctx, m, name, acknowledged)
			if err == nil && !end.found {
				continue
			}
			if !yield(infoOf(name, end.last), err) {
				return
			}
		}
	}
}

// At returns the sequence of the last event of a session whose time is not after at; 0 if there is none.
func (m *Memory) At(ctx context.Context, session string, at time.Time) (seq uint64, err error) {
	return lastAt(ctx, m, session, at)
}

// Verify checks the log of a session as [Store.Verify] does.
func (m *Memory) Verify(ctx context.Context, session string, o VerifyOptions) (Report, error) {
	return verify(ctx, m, session, o)
}

// publish stores a commit at once, unless a hook prevents it.
func (m *Memory) publish(l *Log, c *commit) {
	for _, rec := range m.records(l.session) {
		if rec.stream > l.tail && !rec.foreign(l.session) {
			break
		}
		if rec.stream > l.tail {
			l.skipForeignLocked(rec)
		}
	}
	c.seal("", l.hash, l.tail)
	c.hash, l.sent = schemas.Hash(c.msg.Header, c.msg.Data), time.Now()
	rec := record{header: c.msg.Header, payload: bytes.Clone(c.msg.Data)}
	stream, err := m.store(l.session, rec, c.First, l.tail)
	if err != nil {
		l.fail(err)
		return
	}
	l.stored(c, stream)
}

// store stores a record and calls the hooks before and after.
func (m *Memory) store(session string, rec record, first, after uint64) (stream uint64, err error) {
	var events []schemas.Event
	if m.OnAppend != nil || m.OnCommit != nil {
		if events, err = schemas.DecodeLog(session, rec.header, rec.payload, nil); err != nil {
			return 0, err
		}
	}
	prefix := func(n int) error { return m.putPrefix(session, rec, events[:n], after) }
	if err := m.hook(events, false, prefix); err != nil {
		return 0, err
	}
	if stream, err = m.put(session, first, after, rec); err != nil {
		return 0, err
	}
	return stream, m.hook(events, true, nil)
}

// hook calls the hooks before or after events are stored. If OnAppend refuses event n, prefix stores those before it.
func (m *Memory) hook(events []schemas.Event, stored bool, prefix func(n int) error) error {
	failed := func(e schemas.Event, err error) error {
		return fmt.Errorf("eventstore: append session %s seq %d: %w", e.Session, e.Seq, err)
	}
	if m.OnCommit != nil {
		if err := m.OnCommit(events, stored); err != nil {
			return failed(events[0], err)
		}
	}
	for n, e := range events {
		if m.OnAppend == nil {
			break
		}
		err := m.OnAppend(e, stored)
		if err != nil && !stored && n > 0 {
			err = errors.Join(err, prefix(n))
		}
		if err != nil {
			return failed(e, err)
		}
	}
	return nil
}

// putPrefix stores the first events of a commit as a commit of their own.
func (m *Memory) putPrefix(session string, rec record, events []schemas.Event, after uint64) error {
	header, payload, err := schemas.EncodeCommit(events...)
	if err == nil {
		header[jetstream.ExpectedLastSubjSeqHeader] = rec.header[jetstream.ExpectedLastSubjSeqHeader]
		_, err = m.put(session, events[0].Seq, after, record{header: header, payload: payload})
	}
	return err
}

func (m *Memory) last(_ context.Context, session string, _ consistency) (rec record, found bool, err error) {
	if recs := m.records(session); len(recs) > 0 {
		return recs[len(recs)-1], true, nil
	}
	return record{}, false, nil
}

func (m *Memory) at(ctx context.Context, session string, stream uint64) (rec record, found bool, err error) {
	for rec, err := range m.between(ctx, session, stream-1, stream) {
		return rec, true, err
	}
	return record{}, false, nil
}

func (m *Memory) between(ctx context.Context, session string, after, upTo uint64) recordSeq {
	return func(yield func(record, error) bool) {
		for _, rec := range m.records(session) {
			if after < rec.stream && rec.stream <= upTo && !yield(rec, context.Cause(ctx)) {
				return
			}
		}
	}
}

func (m *Memory) payload(_ context.Context, ref string) ([]byte, error) {
	return nil, fmt.Errorf("%w: no payload %s: memory has no object store", ErrDamaged, ref)
}

func (m *Memory) snapshotObject(_ context.Context, name string) ([]byte, error) {
	return nil, fmt.Errorf("%w: no object %s: memory has no object store", errBadSnapshot, name)
}

func (m *Memory) snapshotValue(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.snapshots[key]), nil
}

func (m *Memory) saveSnapshot(_ context.Context, session string, h snapshotHeader, state []byte) error {
	value, _, err := encodeSnapshot(h, session, state, math.MaxInt)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.snapshots[snapshotKey(session, h.Version)] = value
	return nil
}
