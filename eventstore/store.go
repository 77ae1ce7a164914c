package eventstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// Options configure a [Store]. The zero value is ready to use.
type Options struct {
	// Subjects is the subject grammar in use.
	Subjects schemas.Subjects
	// BlobThreshold is the size in bytes above which a payload goes to the object store; 0 means 256 KiB. It has to
	// stay well below the server's max_payload.
	BlobThreshold int
	// AppendTimeout is how long to wait for the answer to an append before its outcome counts as unknown, and for the
	// answer to a read before it is requested again; 0 means 5 s. A payload that keeps arriving may take longer.
	AppendTimeout time.Duration
	// OutcomeTimeout is how long a log tries to find out the outcome of an append, and how long a read is retried while
	// the server cannot be reached; 0 means 30 s.
	OutcomeTimeout time.Duration
	// InProgress reports whether the deletion or the restore of the session with this id is in progress; for the id "",
	// whether any restore is. [Store.Open] calls it for each fence behind the log, for a log whose newest message was
	// restored, and with "" for a log without messages. Without it no session is being deleted or restored.
	InProgress func(ctx context.Context, session, id string) (bool, error)
	// Heal permits reading an object to delete messages that no client put into the object store: answers of a NATS
	// server that somebody directed there. It needs the permission to delete messages of that stream. Without Heal such
	// an object is damaged.
	Heal bool
	// ByConsumer makes the store read sessions with consumers instead of batches of direct gets: permissions can restrict
	// the creation of a consumer to a session's subject, but not batches. It costs two more requests for each read.
	ByConsumer bool
	// OnForeign, if set, is called when a writer finds a foreign message in its session's log: once for each message
	// while the log is open. It must not block.
	OnForeign func(session string)
	// Logger receives what an operator should know; nil discards it.
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
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// ErrDamaged is wrapped by every error about a log that differs from what its writers stored: a gap, another history, a
// payload that does not match its digest. [Store.Verify] reports the details. A foreign message is no damage.
var ErrDamaged = errors.New("log damaged")

// Store keeps logs in the stream [schemas.StreamEvents], large payloads in the object store [schemas.BucketBlobs] and
// snapshots in the key-value bucket [schemas.BucketSnapshots]; all three must exist. It may be used concurrently. Its
// one subscription and one goroutine end with the connection.
type Store struct {
	js    jetstream.JetStream
	nc    *nats.Conn
	o     Options
	api   string // prefix of the JetStream API, with its dot
	acks  *ackInbox
	watch *connWatch

	replicas atomic.Pointer[bool] // whether the stream is replicated; nil if unknown

	bucketsMu sync.Mutex // guards the two handles below, opened on first use
	blobs     jetstream.ObjectStore
	snapshots jetstream.KeyValue
}

// New returns a store on the connection of js, which must have been made with nats.ReconnectBufSize(-1).
func New(js jetstream.JetStream, o Options) (*Store, error) {
	nc := js.Conn()
	if nc.Opts.ReconnectBufSize >= 0 {
		return nil, errors.New("eventstore: the connection buffers while it reconnects: connect with " +
			"nats.ReconnectBufSize(-1)")
	}
	s := &Store{js: js, nc: nc, o: o.withDefaults(), api: natsio.APIPrefix(js)}
	var err error
	if s.acks, err = newAckInbox(nc); err != nil {
		return nil, fmt.Errorf("eventstore: subscribe to answers: %w", err)
	}
	s.watch = watchConn(nc, s.acks.connectionLost)
	return s, nil
}

// Open opens the log of a session at its head. A session without events opens empty. Open makes one get, which on a
// replicated stream the leader answers, because another replica may be behind.
func (s *Store) Open(ctx context.Context, session string) (*Log, error) {
	return openLog(ctx, s, s, &s.o, session)
}

// bucket returns the handle of a bucket, which it opens on the first call.
func bucket[B comparable](s *Store, handle *B, name string, open func() (B, error)) (B, error) {
	s.bucketsMu.Lock()
	defer s.bucketsMu.Unlock()
	var none B
	if *handle != none {
		return *handle, nil
	}
	b, err := open()
	if err != nil {
		return none, fmt.Errorf("bucket %s: %w", name, err)
	}
	*handle = b
	return b, nil
}

// Sessions yields all sessions that have a log, by name. An error is the last thing yielded. Events that are appended
// in the meantime may be missing.
func (s *Store) Sessions(ctx context.Context) iter.Seq2[SessionInfo, error] {
	return func(yield func(SessionInfo, error) bool) {
		all, err := s.subjects(ctx)
		for subjects := range slices.Chunk(all, batchEvents) {
			if err == nil {
				err = s.list(ctx, subjects, yield)
			}
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(SessionInfo{}, fmt.Errorf("eventstore: list sessions: %w", err))
		}
	}
}

// list yields the sessions with these subjects.
func (s *Store) list(ctx context.Context, subjects []string, yield func(SessionInfo, error) bool) error {
	last, err := s.lastOf(ctx, subjects)
	if err != nil {
		return err
	}
	for _, subject := range subjects {
		session, err := s.o.Subjects.ParseEvent(subject)
		if err != nil {
			return err
		}
		end := ending{}
		if rec := last[subject]; rec.stream > 0 {
			if end, err = endBefore(ctx, s, session, rec); err != nil {
				return err
			}
			if !end.found {
				continue // foreign messages only: the session has no log
			}
		}
		if !yield(infoOf(session, end.last), nil) {
			return errStop
		}
	}
	return nil
}

// subjects returns the subjects of all logs, sorted. Others, which no log can have, are left out: a server that was
// made to answer there may have stored one with wildcards, which would stand for all logs in a request.
func (s *Store) subjects(ctx context.Context) (all []string, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		info, err := natsio.LeaderInfo(ctx, s.js, schemas.StreamEvents,
			jetstream.WithSubjectFilter(s.o.Subjects.Event("*")))
		if err == nil {
			all = slices.Sorted(maps.Keys(info.State.Subjects))
			all = slices.DeleteFunc(all, func(subject string) bool {
				_, err := s.o.Subjects.ParseEvent(subject)
				return err != nil
			})
		}
		return err
	})
	return all, err
}

// lastOf returns the newest message on each of at most batchEvents subjects.
func (s *Store) lastOf(ctx context.Context, subjects []string) (last map[string]record, err error) {
	err = s.retry(ctx, func(context.Context) error {
		last = make(map[string]record, len(subjects))
		return s.batchGet(ctx, getRequest{MultiLast: subjects}, func(rec record) error {
			last[natsio.Added(rec.header, jetstream.SubjectHeader)] = rec
			return nil
		})
	})
	return last, err
}
