package eventstore

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Memory keeps logs in memory, for tests and simulations. It keeps what a [Store] does, gathered, encoded and hashed
// the same way, and behaves the same but for its speed and that it loses everything with the process. It may be used
// concurrently.
type Memory struct {
	// OnCommit, if set, is called before and after each commit is stored, with its events. An error before keeps it from
	// being stored; an error after it is an acknowledgement that got lost. Either way it is the log's final error.
	OnCommit func(events []schemas.Event, stored bool) error
	// OnAppend is the same with each event of a commit. An error before one leaves those before it stored, in a commit of
	// their own, so that a log may end with any event.
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

// memoryOptions have nothing kept elsewhere.
var memoryOptions = Options{BlobThreshold: math.MaxInt}.withDefaults()

// Open opens the log of a session at its head. A session without events opens empty.
func (m *Memory) Open(ctx context.Context, session string) (*Log, error) {
	return openLog(ctx, m, nil, &memoryOptions, session)
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
	m.sessions[session] = append(recs, rec)
	return rec.stream, nil
}

// Read yields the events of a session from sequence from (1 is the first) up to its head at the moment of the call, in
// order. An error is the last thing yielded.
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
			rec, _, found, err := endOf(ctx, m, name)
			if err == nil && !found {
				continue
			}
			if !yield(infoOf(name, rec), err) {
				return
			}
		}
	}
}

// At returns the sequence of the last event of a session whose time is at or before at; 0 if there is none.
func (m *Memory) At(ctx context.Context, session string, at time.Time) (seq uint64, err error) {
	return lastAt(ctx, m, session, at)
}

// Verify is [Store.Verify].
func (m *Memory) Verify(ctx context.Context, session string, o VerifyOptions) (Report, error) {
	return verify(ctx, m, session, o)
}
