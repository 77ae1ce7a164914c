package eventstore

import "bytes"

// Stored is a message of a log as it is stored.
type Stored struct {
	Stream  uint64
	Header  map[string][]string
	Payload []byte
}

// Dump returns the messages of a session, and its snapshot of a version, nil if there is none.
func (m *Memory) Dump(session string, version int) (messages []Stored, snapshot []byte) {
	for _, r := range m.records(session) {
		messages = append(messages, Stored{r.stream, r.header, r.payload})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return messages, bytes.Clone(m.snapshots[snapshotKey(session, version)])
}

// Restore puts messages and a snapshot into an empty store.
func (m *Memory) Restore(session string, messages []Stored, version int, snapshot []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range messages {
		m.sessions[session] = append(m.sessions[session], record{s.Stream, s.Header, s.Payload})
		m.stream = max(m.stream, s.Stream)
	}
	if snapshot != nil {
		m.snapshots[snapshotKey(session, version)] = snapshot
	}
}
