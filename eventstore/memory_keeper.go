package eventstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// publish stores a commit at once, as far as the hooks let it.
func (m *Memory) publish(l *Log, c *commit) {
	for _, rec := range m.records(l.session) { // what a server has put there, see foreign.go
		if rec.stream > l.tail && !rec.foreign(l.session) {
			break
		}
		if rec.stream > l.tail {
			l.passLocked(rec)
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

// store stores a record between the calls of the hooks.
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

// hook calls the hooks before or after events are stored. The nth event may be refused: prefix then stores those
// before it.
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

// putPrefix stores the first events of a commit as one of their own.
func (m *Memory) putPrefix(session string, rec record, events []schemas.Event, after uint64) error {
	header, payload, err := schemas.EncodeCommit(events...)
	if err == nil {
		header[jetstream.ExpectedLastSubjSeqHeader] = rec.header[jetstream.ExpectedLastSubjSeqHeader]
		_, err = m.put(session, events[0].Seq, after, record{header: header, payload: payload})
	}
	return err
}

func (m *Memory) end(_ context.Context, session string, _ freshness) (rec record, found bool, err error) {
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

func (m *Memory) between(ctx context.Context, session string, after, upTo uint64) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		for _, rec := range m.records(session) {
			if after < rec.stream && rec.stream <= upTo && !yield(rec, context.Cause(ctx)) {
				return
			}
		}
	}
}

func (m *Memory) fetchBlob(_ context.Context, ref string) ([]byte, error) {
	return nil, fmt.Errorf("%w: no payload %s: memory keeps none elsewhere", ErrDamaged, ref)
}

func (m *Memory) snapshotObject(_ context.Context, name string) ([]byte, error) {
	return nil, fmt.Errorf("%w: no object %s: memory keeps none", errBadSnapshot, name)
}

func (m *Memory) snapshotValue(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.snapshots[key]), nil
}

func (m *Memory) putSnapshot(_ context.Context, key string, value, _ []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.snapshots[key] = value
	return nil
}
