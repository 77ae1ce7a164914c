package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// ErrExists is wrapped by the error of restoring a session that has a log which is not the beginning of the archive.
var ErrExists = errors.New("session exists")

// Restore brings back the session of an archive, under its id. The whole archive is checked before anything is changed.
// One that was restored in part, by a process that died, is continued. An interrupted deletion of the session is
// completed first. No runner opens the session before all of it is restored: commands wait until then. An error about a
// message that is larger than the server takes wraps [nats.ErrMaxPayload]. A runner takes the session for one at rest.
func Restore(ctx context.Context, c *bus.Conn, store *eventstore.Store, from io.ReadSeeker) (Summary, error) {
	s, err := read(from, fitting(c.NATS().MaxPayload()), nil)
	if err == nil {
		_, err = from.Seek(0, io.SeekStart)
	}
	if err != nil {
		return s, fmt.Errorf("restore: %w", err)
	}
	// It completes a deletion that was interrupted, which would delete what is restored.
	begun, err := retention.NewDeleter(c, retention.Options{Store: store}).BeginRestore(ctx, s.Session, s.Hash)
	if err == nil {
		err = publish(ctx, c, store, from, s, begun.ID)
	}
	if begun != nil && (err == nil || errors.Is(err, ErrExists)) {
		err = errors.Join(err, begun.End(ctx))
	}
	if err != nil {
		return s, fmt.Errorf("restore session %s: %w", s.Session, err)
	}
	return s, nil
}

// publish stores what the log does not have yet of an archive.
func publish(ctx context.Context, c *bus.Conn, store *eventstore.Store, from io.Reader, s Summary, id string) error {
	r := &restoring{conn: c, store: store, session: s.Session, subject: c.Subjects().Event(s.Session), id: id}
	for m, err := range store.Messages(ctx, s.Session) {
		if err != nil {
			return err
		}
		if !m.Foreign {
			r.have = append(r.have, schemas.Hash(m.Header, m.Payload))
		}
		r.tail = m.Stream
	}
	if len(r.have) > s.Messages {
		return ErrExists
	}
	next := func(header map[string][]string, body []byte) error { return r.message(ctx, header, body) }
	_, err := read(from, next, func(ref string, data []byte) error {
		r.payloads = append(r.payloads, payload{ref, data})
		return nil
	})
	return err
}

// fitting returns a function for [read] that refuses messages which are larger than a server takes.
func fitting(most int64) func(header map[string][]string, body []byte) error {
	n := 0
	return func(header map[string][]string, body []byte) error {
		n++
		if size := headerSize(header) + len(body); int64(size) > most {
			return fmt.Errorf("message %d has %d bytes, the server takes %d: %w", n, size, most, nats.ErrMaxPayload)
		}
		return nil
	}
}

type restoring struct {
	conn     *bus.Conn
	store    *eventstore.Store
	session  string
	subject  string
	stored   int       // messages of the archive that the log has
	id       string    // of the restore
	have     []string  // hashes of the messages that are there and have not been met
	tail     uint64    // place of the newest message
	payloads []payload // of the message that comes next
}

// message stores a message that the log does not have. Its payloads are put only once the log is known to be the
// beginning of the archive: a deletion finds payloads by the messages that name them.
func (r *restoring) message(ctx context.Context, header map[string][]string, body []byte) error {
	if len(r.have) > 0 && r.have[0] != schemas.Hash(header, body) {
		return ErrExists
	}
	for _, p := range r.payloads {
		if err := r.store.PutPayload(ctx, p.Ref, p.Data); err != nil {
			return err
		}
	}
	if len(r.have) > 0 {
		r.have = r.have[1:]
	} else if err := r.send(ctx, header, body); err != nil {
		return err
	}
	r.stored++
	r.payloads = nil
	return nil
}

func (r *restoring) send(ctx context.Context, header map[string][]string, body []byte) error {
	m := &nats.Msg{Subject: r.subject, Header: nats.Header(maps.Clone(header)), Data: body}
	m.Header.Set(schemas.HeaderRestore, r.id)
	ack, err := r.conn.Events().PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(r.tail),
		natsio.UntilLeader())
	if natsio.Outdated(err) {
		if named, extended := r.extended(ctx); extended {
			return errors.Join(ErrExists, r.takeBack(ctx, named))
		}
	}
	if err != nil {
		return fmt.Errorf("store a message behind %d of the stream, call again to go on: %w", r.tail, err)
	}
	r.tail = ack.Sequence
	return nil
}

// extended reports whether another process has extended the log, as a runner does that has opened it before the first
// message was restored, and which payloads the log names.
func (r *restoring) extended(ctx context.Context) (named map[string]bool, extended bool) {
	n, named := 0, map[string]bool{}
	for m, err := range r.store.Messages(ctx, r.session) {
		if err != nil {
			return nil, false
		}
		if m.Foreign {
			continue
		}
		n++
		events, _ := schemas.SplitLog(r.session, m.Header, m.Payload) // a deletion does not find those of a damaged one
		for _, e := range events {
			named[e.Ref] = true
		}
	}
	return named, n > r.stored
}

// takeBack deletes the payloads of the message that has found no place. The log may name some of them: another restore
// has stored this message, or an earlier message has equal data.
func (r *restoring) takeBack(ctx context.Context, named map[string]bool) (err error) {
	for _, p := range r.payloads {
		if !named[p.Ref] && eventstore.OwnPayload(r.session, p.Ref) {
			err = errors.Join(err, r.store.DeletePayload(ctx, r.session, p.Ref, 0))
		}
	}
	return err
}
