package eventstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

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

// get returns one message of the stream; found says whether there is such a one.
func (s *Store) get(ctx context.Context, req getRequest) (rec record, found bool, err error) {
	body, err := json.Marshal(req)
	if err != nil {
		return record{}, false, err
	}
	return s.direct(ctx, s.directSubject(), body)
}

// last returns the last message on a literal subject, as whichever replica has it that answers. It keeps trying while the server cannot be reached.
func (s *Store) last(ctx context.Context, subject string) (rec record, found bool, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		rec, found, err = s.direct(ctx, s.directSubject()+"."+subject, nil)
		return err
	})
	return rec, found, err
}

// at returns the message with a stream sequence. It keeps trying while the server cannot be reached.
func (s *Store) at(ctx context.Context, stream uint64) (rec record, found bool, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		rec, found, err = s.newest(ctx, getRequest{Seq: stream})
		return err
	})
	return rec, found, err
}

func (s *Store) direct(ctx context.Context, subject string, body []byte) (rec record, found bool, err error) {
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
