package sweep

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
)

// atOnce is how many messages are being removed at a time.
const atOnce = 256

// remove deletes single messages. It is no error if one is not there any more.
func (s *Sweeper) remove(ctx context.Context, w *swept, seqs []uint64) error {
	js := s.conn.JetStream()
	nc := js.Conn()
	subject := natsio.APIPrefix(js) + "STREAM.MSG.DELETE." + w.name
	for some := range slices.Chunk(seqs, atOnce) {
		answers := make(chan *nats.Msg, len(some))
		sub, err := nc.ChanSubscribe(natsio.NewInbox(nc), answers)
		if err != nil {
			return err
		}
		err = func() error {
			defer func() { _ = sub.Unsubscribe() }()
			for _, seq := range some {
				err := nc.PublishRequest(subject, sub.Subject, fmt.Appendf(nil, `{"seq":%d,"no_erase":true}`, seq))
				if err != nil {
					return err
				}
			}
			for range some {
				select {
				case m := <-answers:
					if err := deleted(m); err != nil {
						return err
					}
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		}()
		if err != nil {
			return fmt.Errorf("remove what nobody has written on purpose: %w", err)
		}
	}
	return nil
}

// deleted reads the answer to a deletion.
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
	if answer.Error == nil || answer.Error.ErrorCode == codeSequenceNotFound ||
		answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound {
		return nil
	}
	return answer.Error
}

// codeSequenceNotFound is how a stream refuses to delete what it has not.
const codeSequenceNotFound jetstream.ErrorCode = 10043
