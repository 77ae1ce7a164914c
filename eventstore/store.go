package eventstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// Options configure a [Store]. The zero value is ready to use.
type Options struct {
	// Subjects is the subject grammar in use.
	Subjects schemas.Subjects
	// BlobThreshold is the size in bytes above which a payload goes to the object store; 0 means 256 KiB. It has to
	// stay well below the server's max_payload.
	BlobThreshold int
	// AppendTimeout is how long to wait for the answer to an append or a read before its outcome counts as unknown;
	// 0 means 5 s.
	AppendTimeout time.Duration
	// OutcomeTimeout is how long to go on finding out what became of an unknown append, and how long a read goes on
	// while the server cannot be reached; 0 means 30 s.
	OutcomeTimeout time.Duration
	// FollowCheck is how often a quiet [Store.Follow] looks whether it has missed something, which only the death of a
	// stream's leader between storing and republishing can cause; 0 means 15 s.
	FollowCheck time.Duration
	// Logger gets what an operator should know; nil discards.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.BlobThreshold <= 0 {
		o.BlobThreshold = 256 << 10
	}
	if o.AppendTimeout <= 0 {
		o.AppendTimeout = 5 * time.Second
	}
	if o.OutcomeTimeout <= 0 {
		o.OutcomeTimeout = 30 * time.Second
	}
	if o.FollowCheck <= 0 {
		o.FollowCheck = 15 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// ErrDamaged is wrapped by every error about a log that is not what its writers wrote: a gap, a foreign message, a
// payload that does not match its digest. [Store.Verify] says more.
var ErrDamaged = errors.New("log damaged")

// Store keeps logs in the stream [schemas.StreamEvents], big payloads in the object store [schemas.BucketBlobs] and
// snapshots in the key-value bucket [schemas.BucketSnapshots]; all three must exist. It may be used concurrently. What
// it holds (one subscription and one goroutine) ends with the connection.
type Store struct {
	js    jetstream.JetStream
	nc    *nats.Conn
	o     Options
	api   string // prefix of the direct get subjects
	acks  *ackInbox
	watch *connWatch

	replication replication

	bucketsMu sync.Mutex // guards the two handles below, made on first use
	blobs     jetstream.ObjectStore
	snapshots jetstream.KeyValue
}

// New returns a store on the connection of js, which must have been made with nats.ReconnectBufSize(-1).
func New(js jetstream.JetStream, o Options) (*Store, error) {
	nc := js.Conn()
	if nc.Opts.ReconnectBufSize >= 0 {
		return nil, errors.New("eventstore: the connection buffers while it reconnects: connect with nats.ReconnectBufSize(-1)")
	}
	s := &Store{js: js, nc: nc, o: o.withDefaults(), api: apiPrefix(js.Options())}
	s.acks = newAckInbox(nc)
	if err := s.acks.subscribe(); err != nil {
		return nil, fmt.Errorf("eventstore: subscribe to answers: %w", err)
	}
	s.watch = watchConn(nc, s.acks.connectionLost)
	return s, nil
}

func apiPrefix(o jetstream.JetStreamOptions) string {
	switch {
	case o.APIPrefix != "":
		return o.APIPrefix + "."
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	}
	return "$JS.API."
}

// Open opens the log of a session at its head. A session without events opens empty. It takes one get, which on a
// replicated stream the leader answers: a replica may be behind.
func (s *Store) Open(ctx context.Context, session string) (*Log, error) {
	if err := schemas.CheckSession(session); err != nil {
		return nil, fmt.Errorf("eventstore: open: %w", err)
	}
	rec, found, err := s.end(ctx, session)
	if err != nil {
		return nil, fmt.Errorf("eventstore: open session %s: %w", session, err)
	}
	l := newLog(s, session)
	if found {
		seq, err := rec.seqOf(session)
		if err != nil {
			return nil, fmt.Errorf("eventstore: open session %s: %w", session, err)
		}
		l.start(position{seq: seq, stream: rec.stream}, rec.hash())
	}
	return l, nil
}

// end returns the last message of a session, not one that is behind what was acknowledged.
func (s *Store) end(ctx context.Context, session string) (rec record, found bool, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		rec, found, err = s.newest(ctx, getRequest{LastFor: s.o.Subjects.Event(session)})
		return err
	})
	return rec, found, err
}

// position is where an event is: its sequence in the session and in the stream. Zero is before the first.
type position struct{ seq, stream uint64 }
