package eventstore

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// Memory keeps logs in memory, for tests and simulations. It keeps what a [Store] does, encoded and hashed the same
// way, and behaves the same but for its speed and that it loses everything with the process. It may be used
// concurrently.
type Memory struct {
	// OnAppend, if set before the first use, is called before and after each event is stored. An error before keeps
	// the event from being stored; an error after it is an acknowledgement that got lost. Either way it is the log's
	// final error.
	OnAppend func(e schemas.Event, stored bool) error

	mu        sync.Mutex
	stream    uint64 // sequence of the last record of all sessions
	sessions  map[string][]record
	changed   map[string]chan struct{} // closed when the session gets an event; entries only where somebody follows
	snapshots map[string][]byte
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{sessions: map[string][]record{}, changed: map[string]chan struct{}{}, snapshots: map[string][]byte{}}
}

// Open opens the log of a session at its head. A session without events opens empty.
func (m *Memory) Open(_ context.Context, session string) (*MemoryLog, error) {
	if err := schemas.CheckSession(session); err != nil {
		return nil, fmt.Errorf("eventstore: open: %w", err)
	}
	l := &MemoryLog{m: m, session: session}
	if recs := m.records(session); len(recs) > 0 {
		last := recs[len(recs)-1]
		seq, err := last.seqOf(session)
		if err != nil {
			return nil, fmt.Errorf("eventstore: open session %s: %w", session, err)
		}
		l.head, l.hash = position{seq, last.stream}, last.hash()
	}
	return l, nil
}

// records returns what is stored of a session. The slice must not be changed.
func (m *Memory) records(session string) []record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clip(m.sessions[session])
}

// put stores a record if the session's last one is where expected, else it returns a [schemas.ConflictError].
func (m *Memory) put(session string, seq, expected uint64, rec record) (stream uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	recs := m.sessions[session]
	var last uint64
	if len(recs) > 0 {
		last = recs[len(recs)-1].stream
	}
	if last != expected {
		cause := fmt.Errorf("wrong last sequence: %d", last) // as the server says it
		return 0, &schemas.ConflictError{Session: session, Seq: seq, Cause: cause}
	}
	m.stream++
	rec.stream = m.stream
	rec.header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(expected, 10)}
	m.sessions[session] = append(recs, rec)
	if ch := m.changed[session]; ch != nil {
		close(ch)
		delete(m.changed, session)
	}
	return rec.stream, nil
}

// Read yields the events of a session from sequence from (1 is the first) up to its head at the moment of the call, in
// order. An error is the last thing yielded.
func (m *Memory) Read(ctx context.Context, session string, from uint64) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		if err := schemas.CheckSession(session); err != nil {
			yield(schemas.Event{}, fmt.Errorf("eventstore: %w", err))
			return
		}
		decodeAll(ctx, session, m.records(session), 0, from, yield)
	}
}

// decodeAll yields the records that come after event last and have at least sequence from. It returns false if the
// reader has enough or there was an error.
func decodeAll(ctx context.Context, session string, recs []record, last, from uint64, yield func(schemas.Event, error) bool) bool {
	for _, rec := range recs {
		err := ctx.Err()
		if err == nil {
			last, err = follows(session, rec, last)
		}
		var e schemas.Event
		if err == nil && last < from {
			continue
		}
		if err == nil {
			e, err = rec.decode(ctx, noBlobs)
		}
		if err != nil {
			yield(schemas.Event{}, fmt.Errorf("eventstore: read session %s after seq %d: %w", session, last, err))
			return false
		}
		if !yield(e, nil) {
			return false
		}
	}
	return true
}

func noBlobs(_ context.Context, ref string) ([]byte, error) {
	return nil, fmt.Errorf("%w: no payload %s: memory keeps none elsewhere", ErrDamaged, ref)
}

// Follow yields the events of a session from sequence from (1 is the first), those stored and then those that come,
// until ctx ends.
func (m *Memory) Follow(ctx context.Context, session string, from uint64) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		if err := schemas.CheckSession(session); err != nil {
			yield(schemas.Event{}, fmt.Errorf("eventstore: follow: %w", err))
			return
		}
		for seen := 0; ctx.Err() == nil; {
			recs, changed := m.watch(session)
			enough := !decodeAll(context.WithoutCancel(ctx), session, recs[seen:], uint64(seen), from, yield)
			if enough {
				return
			}
			seen = len(recs)
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

// watch returns what is stored of a session and a channel that is closed when there is more.
func (m *Memory) watch(session string) ([]record, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ch := m.changed[session]
	if ch == nil {
		ch = make(chan struct{})
		m.changed[session] = ch
	}
	return slices.Clip(m.sessions[session]), ch
}

// Sessions yields all sessions that have a log, by name.
func (m *Memory) Sessions(_ context.Context) iter.Seq2[SessionInfo, error] {
	return func(yield func(SessionInfo, error) bool) {
		m.mu.Lock()
		names := slices.Sorted(maps.Keys(m.sessions))
		m.mu.Unlock()
		for _, name := range names {
			recs := m.records(name)
			if !yield(infoOf(name, uint64(len(recs)), recs[len(recs)-1]), nil) {
				return
			}
		}
	}
}

// At returns the sequence of the last event of a session whose time is at or before at; 0 if there is none.
func (m *Memory) At(_ context.Context, session string, at time.Time) (seq uint64, err error) {
	if err := schemas.CheckSession(session); err != nil {
		return 0, fmt.Errorf("eventstore: %w", err)
	}
	for _, rec := range m.records(session) {
		if n, err := rec.seqOf(session); err == nil && !rec.time().After(at) {
			seq = n
		}
	}
	return seq, nil
}

// Verify is [Store.Verify].
func (m *Memory) Verify(ctx context.Context, session string, o VerifyOptions) (Report, error) {
	return verify(ctx, memorySource{m}, session, o)
}
