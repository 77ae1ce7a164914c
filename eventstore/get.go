package eventstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

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

// body is the request in JSON, as which it always encodes.
func (r getRequest) body() []byte {
	body, _ := json.Marshal(r)
	return body
}

// getFunc gets one message of the stream; found says whether there is one.
type getFunc func(ctx context.Context, req getRequest) (rec record, found bool, err error)

// until keeps trying while the server cannot be reached.
func (s *Store) until(ctx context.Context, get getFunc, req getRequest) (rec record, found bool, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		rec, found, err = get(ctx, req)
		return err
	})
	return rec, found, err
}

// once tries once, and is not behind what was acknowledged before.
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

func (s *Store) end(ctx context.Context, session string, as freshness) (rec record, found bool, err error) {
	get := [...]getFunc{asSeen: s.direct, asStored: s.current, asLed: s.leaderGet}[as]
	return s.until(ctx, get, getRequest{LastFor: s.o.Subjects.Event(session)})
}

// direct returns one message of the stream, as whichever replica has it that answers.
func (s *Store) direct(ctx context.Context, req getRequest) (rec record, found bool, err error) {
	subject, body := s.directSubject(), req.body()
	if req.LastFor != "" { // in the form that readers of one session are permitted
		subject, body = subject+"."+req.LastFor, nil
	}
	m, err := s.nc.RequestWithContext(ctx, subject, body)
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

// What a status line in place of a message means.
var (
	errNotFound   = errors.New("message not found")
	errEndOfBatch = errors.New("end of batch")
)

// status returns nil if m is a stored message, else what it says instead.
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

// replicated reports whether the stream has replicas. A direct get may then be answered by one that is behind, so a
// writer asks the leader, which never is behind an acknowledgement. That takes a permission that readers need not have.
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

// current returns one message of the stream and is not behind what was acknowledged before.
func (s *Store) current(ctx context.Context, req getRequest) (record, bool, error) {
	replicated, err := s.replicated(ctx)
	if err != nil {
		return record{}, false, err
	}
	if replicated {
		return s.leaderGet(ctx, req)
	}
	return s.direct(ctx, req)
}

// storedMessage is the leader's answer to a get.
type storedMessage struct {
	Message *struct {
		Seq    uint64 `json:"seq"`
		Header []byte `json:"hdrs"`
		Data   []byte `json:"data"`
	} `json:"message"`
	Error *jetstream.APIError `json:"error"`
}

// leaderGet returns one message of the stream as its leader has it; found says whether there is one.
func (s *Store) leaderGet(ctx context.Context, req getRequest) (rec record, found bool, err error) {
	m, err := s.nc.RequestWithContext(ctx, s.api+"STREAM.MSG.GET."+schemas.StreamEvents, req.body())
	if err != nil {
		return record{}, false, fmt.Errorf("get from the leader: %w", err)
	}
	if first(m.Header, "Status") == "503" {
		return record{}, false, nats.ErrNoResponders
	}
	var answer storedMessage
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return record{}, false, fmt.Errorf("get from the leader: %w", err)
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return record{}, false, nil
	case answer.Error != nil:
		return record{}, false, fmt.Errorf("get from the leader: %w", answer.Error)
	case answer.Message == nil:
		return record{}, false, fmt.Errorf("get from the leader: neither a message nor an error in %q", m.Data)
	}
	rec = record{stream: answer.Message.Seq, payload: answer.Message.Data}
	if len(answer.Message.Header) > 0 {
		header, err := nats.DecodeHeadersMsg(answer.Message.Header)
		if err != nil {
			return record{}, false, fmt.Errorf("message %d of the stream: %w", rec.stream, err)
		}
		rec.header = header
	}
	return rec, true, nil
}
