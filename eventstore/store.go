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
	// AppendTimeout is how long to wait for the answer to an append or a read before its outcome counts as unknown;
	// 0 means 5 s.
	AppendTimeout time.Duration
	// OutcomeTimeout is how long to go on finding out what became of an unknown append, and how long a read goes on
	// while the server cannot be reached; 0 means 30 s.
	OutcomeTimeout time.Duration
	// Deleting says whether a session is being deleted by the deletion with this id; nil knows of none.
	Deleting func(ctx context.Context, session, id string) (bool, error)
	// Heal has reading an object take messages out of the object store that nobody has put there, but a server: for who
	// may delete messages of that stream. Without it such an object is damage.
	Heal bool
	// ByConsumer has sessions read by consumers and not by batches of direct gets: permissions can restrict the creation
	// of a consumer to a session's subject, and cannot restrict the gets. It costs two requests more for each read.
	ByConsumer bool
	// OnForeign, if set, is called when a writer meets a message in its session's log that is none of it: once for each
	// message while the log is open. It must not block.
	OnForeign func(session string)
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
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// ErrDamaged is wrapped by every error about a log that is not what its writers wrote: a gap, another history, a
// payload that does not match its digest. [Store.Verify] says more. A message that nobody's log wrote is no damage.
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

	replicas atomic.Pointer[bool] // whether the stream has some, as far as it is known

	bucketsMu sync.Mutex // guards the two handles below, made on first use
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
	s.acks = newAckInbox(nc)
	if err := s.acks.subscribe(); err != nil {
		return nil, fmt.Errorf("eventstore: subscribe to answers: %w", err)
	}
	s.watch = watchConn(nc, s.acks.connectionLost)
	return s, nil
}

// Open opens the log of a session at its head. A session without events opens empty. It takes one get, which on a
// replicated stream the leader answers: a replica may be behind.
func (s *Store) Open(ctx context.Context, session string) (*Log, error) {
	return openLog(ctx, s, s, &s.o, session)
}

func (s *Store) between(ctx context.Context, session string, after, upTo uint64) iter.Seq2[record, error] {
	return s.records(ctx, s.o.Subjects.Event(session), after, upTo)
}

// bucket returns a bucket that is opened when it is first needed.
func bucket[B comparable](s *Store, kept *B, name string, open func() (B, error)) (B, error) {
	s.bucketsMu.Lock()
	defer s.bucketsMu.Unlock()
	var none B
	if *kept != none {
		return *kept, nil
	}
	b, err := open()
	if err != nil {
		return none, fmt.Errorf("bucket %s: %w", name, err)
	}
	*kept = b
	return b, nil
}

// position is the end of a message of the log: the sequence of its last event, and its own in the stream. Zero is
// before the first.
type position struct{ seq, stream uint64 }

// SessionInfo is what a list of sessions shows of one.
type SessionInfo struct {
	Session string
	Events  uint64            // in the log, as its last message says; 0 if that is none of a log
	Last    schemas.EventType // type of the last event
	Time    time.Time         // of the last event
}

// Sessions yields all sessions that have a log, by name. An error is the last thing yielded. What is appended meanwhile
// may be missing.
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
			continue // no session of ours: Open would refuse it
		}
		rec := last[subject]
		if rec.stream > 0 && rec.foreign(session) {
			found := false
			if rec, found, err = lastMember(ctx, s, session, rec.stream); err != nil {
				return err
			}
			if !found {
				continue // nobody has ever written a log there
			}
		}
		if !yield(infoOf(session, rec), nil) {
			return errStop
		}
	}
	return nil
}

// subjects returns the subjects of all logs, sorted.
func (s *Store) subjects(ctx context.Context) (all []string, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		stream, err := s.js.Stream(ctx, schemas.StreamEvents)
		if err != nil {
			return err
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(s.o.Subjects.Event("*")))
		if err == nil {
			all = slices.Sorted(maps.Keys(info.State.Subjects))
		}
		return err
	})
	return all, err
}

func infoOf(session string, last record) SessionInfo {
	info := SessionInfo{Session: session}
	if events, err := last.split(session); err == nil {
		e := events[len(events)-1]
		info.Events, info.Last, info.Time = e.Seq, schemas.EventType(e.Name), e.Time
	}
	return info
}

// lastOf returns the last message on each of at most batchEvents subjects.
func (s *Store) lastOf(ctx context.Context, subjects []string) (last map[string]record, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		last = make(map[string]record, len(subjects))
		return s.batch(ctx, getRequest{MultiLast: subjects}, func(rec record) error {
			last[natsio.Added(rec.header, jetstream.SubjectHeader)] = rec
			return nil
		})
	})
	return last, err
}
