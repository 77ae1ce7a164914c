package eventstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// connWatch wakes those who wait for an answer when the status of the connection changes: the answer may be lost.
type connWatch struct {
	mu sync.Mutex
	ch chan struct{} // closed at the next change
}

// watchConn watches a connection until it is closed. It calls lost whenever the connection went down.
func watchConn(nc *nats.Conn, lost func()) *connWatch {
	w := &connWatch{ch: make(chan struct{})}
	status := nc.StatusChanged()
	go func() {
		defer nc.RemoveStatusListener(status)
		for !nc.IsClosed() {
			if <-status != nats.CONNECTED {
				lost()
			}
			w.broadcast()
		}
		lost()
		w.broadcast()
	}()
	return w
}

func (w *connWatch) broadcast() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.ch)
	w.ch = make(chan struct{})
}

// changed returns a channel that is closed when the connection next goes down or comes back.
func (w *connWatch) changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ch
}

// Bounds of the pause between two attempts to reach the server: the first comes soon enough for a lost answer, the last
// does not load a server that is starting.
const (
	minPause = 5 * time.Millisecond
	maxPause = 250 * time.Millisecond
)

// retry calls f until it succeeds, fails with an error that another attempt does not cure, ctx ends, or OutcomeTimeout
// has passed.
func (s *Store) retry(ctx context.Context, f func(ctx context.Context) error) error {
	all, cancel := context.WithTimeout(ctx, s.o.OutcomeTimeout)
	defer cancel()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := s.attempt(all, f)
		if err == nil || !natsio.Passing(err) || all.Err() != nil {
			return err
		}
		s.pause(all, pause)
	}
}

// attempt calls f once, with AppendTimeout to finish.
func (s *Store) attempt(ctx context.Context, f func(ctx context.Context) error) error {
	return s.connected(ctx, func(ctx context.Context) error {
		one, cancel := context.WithTimeout(ctx, s.o.AppendTimeout)
		defer cancel()
		return f(one)
	})
}

// connected calls f once. A change of the connection ends the context of f early: the client library would wait for an
// answer that was lost with the old connection.
func (s *Store) connected(ctx context.Context, f func(ctx context.Context) error) error {
	one, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	changed := s.watch.changed()
	go func() {
		select {
		case <-changed:
			lose(nats.ErrDisconnected)
		case <-one.Done():
		}
	}()
	err := f(one)
	if err != nil && errors.Is(context.Cause(one), nats.ErrDisconnected) {
		return nats.ErrDisconnected
	}
	return err
}

// pause waits for d, a change of the connection or the end of ctx, whichever comes first.
func (s *Store) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-s.watch.changed():
	}
}

// getRequest is the body of a direct get.
type getRequest struct {
	Seq       uint64   `json:"seq,omitempty"`
	LastFor   string   `json:"last_by_subj,omitempty"`
	NextFor   string   `json:"next_by_subj,omitempty"`
	MultiLast []string `json:"multi_last,omitempty"`
	Batch     int      `json:"batch,omitempty"`
	MaxBytes  int      `json:"max_bytes,omitempty"`
}

func (s *Store) directSubject() string { return s.api + "DIRECT.GET." + schemas.StreamEvents }

// body returns the request in JSON, whose encoding cannot fail.
func (r getRequest) body() []byte {
	body, _ := json.Marshal(r)
	return body
}

// getFunc gets one message of the stream; found reports whether it exists.
type getFunc func(ctx context.Context, req getRequest) (rec record, found bool, err error)

// until calls get until it succeeds, as [Store.retry] does.
func (s *Store) until(ctx context.Context, get getFunc, req getRequest) (rec record, found bool, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		rec, found, err = get(ctx, req)
		return err
	})
	return rec, found, err
}

// once makes one attempt. Its answer is not behind any acknowledgement.
func (s *Store) once(ctx context.Context, req getRequest) (rec record, found bool, err error) {
	err = s.attempt(ctx, func(ctx context.Context) error {
		rec, found, err = s.current(ctx, req)
		return err
	})
	return rec, found, err
}

func (s *Store) at(ctx context.Context, _ string, stream uint64) (rec record, found bool, err error) {
	return s.until(ctx, s.current, getRequest{Seq: stream})
}

func (s *Store) last(ctx context.Context, session string, c consistency) (rec record, found bool, err error) {
	get := [...]getFunc{anyReplica: s.direct, acknowledged: s.current, leader: s.fromLeader}[c]
	return s.until(ctx, get, getRequest{LastFor: s.o.Subjects.Event(session)})
}

// direct gets a message from any replica, which may be behind.
func (s *Store) direct(ctx context.Context, req getRequest) (rec record, found bool, err error) {
	subject, body := s.directSubject(), req.body()
	if req.LastFor != "" { // the form that a reader of one session may have the permission for
		subject, body = subject+"."+req.LastFor, nil
	}
	m, err := natsio.DirectGet(ctx, s.nc, subject, body)
	if err != nil {
		return record{}, false, fmt.Errorf("direct get: %w", err)
	}
	switch err := status(m); {
	case errors.Is(err, errNotFound):
		return record{}, false, nil
	case err != nil:
		return record{}, false, err
	}
	rec, err = recordOf(m)
	return rec, err == nil, err
}

// Statuses that a server sends in place of a message.
var (
	errNotFound   = errors.New("message not found")
	errEndOfBatch = errors.New("end of batch")
)

// status returns nil if m is a stored message, else the error that its status means.
func status(m *nats.Msg) error {
	switch code := first(m.Header, "Status"); {
	case code == "":
		return nil
	case len(m.Data) > 0 || first(m.Header, "Nats-Stream") != "":
		return nil // a stored message that happens to have this header
	case code == "204":
		return errEndOfBatch
	case code == "404":
		return errNotFound
	case code == "503":
		return nats.ErrNoResponders
	default:
		return fmt.Errorf("direct get: %s %s", code, first(m.Header, "Description"))
	}
}

// replicated reports whether the stream has replicas. If so, one that is behind may answer a direct get. A writer
// therefore requests messages from the leader, whose answer is never behind an acknowledgement. That takes a permission
// that readers need not have.
func (s *Store) replicated(ctx context.Context) (bool, error) {
	if known := s.replicas.Load(); known != nil {
		return *known, nil
	}
	stream, err := s.js.Stream(ctx, schemas.StreamEvents)
	if err != nil {
		return false, fmt.Errorf("replicas of %s: %w", schemas.StreamEvents, err)
	}
	some := stream.CachedInfo().Config.Replicas > 1
	s.replicas.Store(&some)
	return some, nil
}

// current gets a message. Its answer is not behind any acknowledgement.
func (s *Store) current(ctx context.Context, req getRequest) (record, bool, error) {
	replicated, err := s.replicated(ctx)
	if err != nil {
		return record{}, false, err
	}
	if replicated {
		return s.fromLeader(ctx, req)
	}
	return s.direct(ctx, req)
}

// fromLeader gets a message from the leader of the stream.
func (s *Store) fromLeader(ctx context.Context, req getRequest) (rec record, found bool, err error) {
	m, found, err := natsio.Get(ctx, s.js, schemas.StreamEvents, req.body())
	switch {
	case err != nil:
		return record{}, false, fmt.Errorf("get from the leader: %w", err)
	case m.Unreadable:
		return record{}, false, fmt.Errorf("message %d of the stream has a header that cannot be read", m.Sequence)
	}
	return record{stream: m.Sequence, header: m.Header, payload: m.Data}, found, nil
}
