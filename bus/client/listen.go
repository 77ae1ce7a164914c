package client

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const (
	// Interval at which a quiet log is checked for messages that did not arrive live. It starts short and doubles, because
	// in a cluster a new subscription may reach the other servers later than the one the client is connected to.
	firstCheck = 250 * time.Millisecond
	lastCheck  = 5 * time.Second
)

// listen yields what arrives live. It returns nil when something may have been missed and the log must be read.
func (w *watcher) listen(ctx context.Context, t *tap) error {
	var gone absence
	interval := firstCheck
	check := time.NewTimer(interval)
	defer check.Stop()
	for {
		if missed, err := t.missed(); missed || err != nil {
			return err
		}
		select {
		case m := <-t.live:
			t.took(m)
			if missed, err := w.liveMessage(ctx, m); missed || err != nil {
				return err
			}
		case <-t.woken:
		case status := <-t.status:
			if status == nats.CLOSED {
				return nats.ErrConnectionClosed
			}
			w.deltas = 0 // the stream of updates is in memory: after a server restart its sequences start at 1 again
			return nil
		case <-check.C:
			one, cancel := context.WithTimeout(ctx, attemptTimeout)
			head, err := w.c.head(one, w.session)
			cancel()
			if err != nil && !w.c.isTransient(err) || ctx.Err() != nil {
				return errors.Join(err, ctx.Err())
			}
			if head.stream > w.at.stream {
				return nil
			}
			if err == nil && gone.lasts(head.seq == 0 && w.at.seq > 0, w.c.checkEvery) {
				return ErrDeleted
			}
			interval = min(2*interval, w.c.checkEvery)
			check.Reset(interval)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// liveMessage processes a live message. missed reports whether the log has to be read first.
func (w *watcher) liveMessage(ctx context.Context, m *nats.Msg) (missed bool, err error) {
	session, update, err := w.c.subjects.ParseLive(m.Subject)
	if err != nil || session != w.session {
		return false, nil // not a message of this session
	}
	if update {
		return w.liveUpdate(m)
	}
	rec, before, ok := republished(m)
	if !ok || rec.seq <= w.at.stream || !schemas.IsLog(w.session, m.Header, m.Data) {
		return false, nil
	}
	first, _, err := schemas.LogSpan(w.session, m.Header)
	if err != nil || before > w.at.stream || !w.continues(rec.seq, first) || rec.subject != w.c.subjects.Event(w.session) {
		return true, nil // a gap, a foreign message or another log: read the log
	}
	reached := w.reached()
	err = w.commit(ctx, rec)
	if err != nil && !errors.Is(err, errStop) {
		return true, nil // its payload could not be fetched, or a client forged the message: read the log
	}
	return reached != w.reached(), err // the updates so far of what is in progress at from are read
}

// republished converts a message of the log that the server republished after storing it. before is the stream sequence
// of the message before it on its subject, 0 for the first one. ok is false for other messages.
func republished(m *nats.Msg) (s storedMsg, before uint64, ok bool) {
	if natsio.Added(m.Header, jetstream.StreamHeader) != schemas.StreamEvents {
		return s, 0, false
	}
	seq, err := strconv.ParseUint(natsio.Added(m.Header, jetstream.SequenceHeader), 10, 64)
	before, errBefore := strconv.ParseUint(natsio.Added(m.Header, jetstream.LastSequenceHeader), 10, 64)
	return storedMsg{natsio.Added(m.Header, jetstream.SubjectHeader), seq, m.Header, m.Data}, before,
		err == nil && errBefore == nil
}
