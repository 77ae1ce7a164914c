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
// completed first. An error about a message that is larger than the server takes wraps [nats.ErrMaxPayload]. A runner
// takes the session for one at rest.
func Restore(ctx context.Context, c *bus.Conn, store *eventstore.Store, from io.ReadSeeker) (Summary, error) {
	s, err := read(from, fitting(c.NATS().MaxPayload()), nil)
	if err == nil {
		_, err = from.Seek(0, io.SeekStart)
	}
	if err != nil {
		return s, fmt.Errorf("restore: %w", err)
	}
	// A deletion that was interrupted would delete what is restored.
	if err := retention.NewDeleter(c, retention.Options{Store: store}).Resume(ctx, s.Session); err != nil {
		return s, fmt.Errorf("restore session %s: %w", s.Session, err)
	}
	r := &restoring{conn: c, subject: c.Subjects().Event(s.Session)}
	for m, err := range store.Messages(ctx, s.Session) {
		if err != nil {
			return s, fmt.Errorf("restore session %s: %w", s.Session, err)
		}
		if !m.Foreign {
			r.have = append(r.have, schemas.Hash(m.Header, m.Payload))
		}
		r.tail = m.Stream
	}
	if len(r.have) > s.Messages {
		return s, fmt.Errorf("restore session %s: %w", s.Session, ErrExists)
	}
	next := func(header map[string][]string, body []byte) error { return r.message(ctx, header, body) }
	if _, err := read(from, next, func(ref string, data []byte) error {
		return store.PutPayload(ctx, ref, data)
	}); err != nil {
		return s, fmt.Errorf("restore session %s: %w", s.Session, err)
	}
	return s, nil
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
	conn    *bus.Conn
	subject string
	have    []string // hashes of the messages that are there and have not been met
	tail    uint64   // place of the newest message
}

func (r *restoring) message(ctx context.Context, header map[string][]string, body []byte) error {
	if len(r.have) > 0 {
		if r.have[0] != schemas.Hash(header, body) {
			return ErrExists
		}
		r.have = r.have[1:]
		return nil
	}
	ack, err := r.conn.Events().PublishMsg(ctx, &nats.Msg{Subject: r.subject, Header: nats.Header(maps.Clone(header)),
		Data: body}, jetstream.WithExpectLastSequencePerSubject(r.tail), natsio.UntilLeader())
	if err != nil {
		return fmt.Errorf("store a message behind %d of the stream, call again to go on: %w", r.tail, err)
	}
	r.tail = ack.Sequence
	return nil
}
