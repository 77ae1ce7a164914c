package sweep

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
)

// atOnce is how many requests to remove a message are in flight.
const atOnce = 256

// remove deletes messages of a stream. A message that no longer exists is no error. After an error it goes on; first is
// a sequence below which all are deleted. It returns how many are.
func (s *Sweeper) remove(ctx context.Context, stream string, seqs []uint64) (n int, first uint64, err error) {
	first = math.MaxUint64
	for some := range slices.Chunk(seqs, atOnce) {
		if failure := s.removeAtOnce(ctx, stream, some); failure != nil {
			first = min(first, slices.Min(some))
			err = cmp.Or(err, fmt.Errorf("remove stray messages from %d on: %w", first, failure))
			continue
		}
		n += len(some)
	}
	return n, first, err
}

// removeAtOnce deletes messages of a stream and returns the first error.
func (s *Sweeper) removeAtOnce(ctx context.Context, stream string, seqs []uint64) error {
	js := s.conn.JetStream()
	nc := js.Conn()
	answers := make(chan *nats.Msg, len(seqs))
	sub, err := nc.ChanSubscribe(natsio.NewInbox(nc), answers)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	subject := natsio.APIPrefix(js) + "STREAM.MSG.DELETE." + stream
	for _, seq := range seqs {
		err := nc.PublishRequest(subject, sub.Subject, fmt.Appendf(nil, `{"seq":%d,"no_erase":true}`, seq))
		if err != nil {
			return err
		}
	}
	for range seqs {
		select {
		case m := <-answers:
			err = cmp.Or(err, deleted(m))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// deleted returns nil if the answer to a request confirms that the message does not exist any more.
func deleted(m *nats.Msg) error {
	if len(m.Data) == 0 {
		return nats.ErrNoResponders
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return err
	}
	if answer.Error != nil && !gone(answer.Error) {
		return answer.Error
	}
	return nil
}

// gone reports whether a deletion was refused because the stream does not have the message. A server also says so by
// the code of any failure of its storage, with a text: for a message that a newer one on its subject has replaced.
func gone(err *jetstream.APIError) bool {
	const (
		codeSequenceNotFound jetstream.ErrorCode = 10043
		codeDeleteFailed     jetstream.ErrorCode = 10057
	)
	return natsio.HasCode(err, codeSequenceNotFound, jetstream.JSErrCodeMessageNotFound) ||
		natsio.HasCode(err, codeDeleteFailed) && strings.Contains(err.Description, "no message found")
}
