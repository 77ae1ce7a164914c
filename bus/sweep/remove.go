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

// atOnce is how many requests to remove a message are in flight.
const atOnce = 256

// remove deletes the messages of w.out. A message that no longer exists is no error.
func (s *Sweeper) remove(ctx context.Context, w *swept) error {
	js := s.conn.JetStream()
	nc := js.Conn()
	subject := natsio.APIPrefix(js) + "STREAM.MSG.DELETE." + w.name
	for some := range slices.Chunk(w.out, atOnce) {
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
			return fmt.Errorf("remove stray messages: %w", err)
		}
	}
	w.out = nil
	return nil
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
	if answer.Error != nil && !natsio.HasCode(answer.Error, codeSequenceNotFound, jetstream.JSErrCodeMessageNotFound) {
		return answer.Error
	}
	return nil
}

// codeSequenceNotFound is the code of a deletion of a message that the stream does not have.
const codeSequenceNotFound jetstream.ErrorCode = 10043
