package eventstore

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// replication remembers whether the stream has replicas. A direct get may then be answered by one that is behind, so a
// writer asks the leader, which never is behind an acknowledgement. That takes a permission that readers need not have.
type replication struct{ known atomic.Int32 }

const (
	replicationUnknown = iota
	replicationNone
	replicationSome
)

// forget has the stream looked at again: it may have got replicas.
func (r *replication) forget() { r.known.Store(replicationUnknown) }

func (s *Store) replicated(ctx context.Context) (bool, error) {
	if known := s.replication.known.Load(); known != replicationUnknown {
		return known == replicationSome, nil
	}
	stream, err := s.js.Stream(ctx, schemas.StreamEvents)
	if err != nil {
		return false, fmt.Errorf("replicas of %s: %w", schemas.StreamEvents, err)
	}
	some := stream.CachedInfo().Config.Replicas > 1
	s.replication.known.Store(replicationNone)
	if some {
		s.replication.known.Store(replicationSome)
	}
	return some, nil
}

// newest returns one message of the stream and is not behind what was acknowledged before.
func (s *Store) newest(ctx context.Context, req getRequest) (record, bool, error) {
	replicated, err := s.replicated(ctx)
	if err != nil {
		return record{}, false, err
	}
	if replicated {
		return s.leaderGet(ctx, req)
	}
	return s.get(ctx, req)
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

// leaderGet returns one message of the stream as its leader has it; found says whether there is such a one.
func (s *Store) leaderGet(ctx context.Context, req getRequest) (rec record, found bool, err error) {
	body, err := json.Marshal(req)
	if err != nil {
		return record{}, false, err
	}
	m, err := s.nc.RequestWithContext(ctx, s.api+"STREAM.MSG.GET."+schemas.StreamEvents, body)
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
