package natsio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrConsumerLost is wrapped if a server says that it will deliver no more: the consumer was deleted, or the server
// stops. A new consumer may be created.
var ErrConsumerLost = errors.New("the consumer is lost")

// fetchExpiry is after what the server ends a fetch without a deadline.
const fetchExpiry = 30 * time.Second

// Fetch requests up to n messages, of up to limit bytes together, from a pull consumer. It yields what the server
// delivers until the request is answered. If ctx ends before, or the consumer, it yields an error last.
//
// The Fetch method of nats.go takes a stored message without payload that has the header of a status for a status of
// the consumer, as [Consume] says: nobody could read what is behind it.
func Fetch(ctx context.Context, js jetstream.JetStream, consumer *jetstream.ConsumerInfo, n, limit int,
) iter.Seq2[*nats.Msg, error] {
	return func(yield func(*nats.Msg, error) bool) {
		sub, messages, err := pullOnce(ctx, js, consumer, n, limit)
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() { _ = sub.Unsubscribe() }() // it fails only if the connection is closed
		for range n {
			var m *nats.Msg
			select {
			case m = <-messages:
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
			switch {
			case m.Reply == "" && (isAnswered(m.Header) || m.Header.Get("Status") == "404"):
				return
			case m.Reply == "":
				err = lostBy(m)
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// pullOnce sends a pull request. What the server sends is in messages, which has room for it: NextMsg of nats.go
// returns an error for a stored message with the header of the status 503.
func pullOnce(ctx context.Context, js jetstream.JetStream, consumer *jetstream.ConsumerInfo, n, limit int,
) (sub *nats.Subscription, messages chan *nats.Msg, err error) {
	expires := fetchExpiry
	if deadline, ok := ctx.Deadline(); ok {
		expires = time.Until(deadline) * 9 / 10 // so that the server ends it first
	}
	if expires <= 0 {
		return nil, nil, context.DeadlineExceeded // also before the timer of ctx has fired
	}
	body, err := json.Marshal(map[string]any{"batch": n, "max_bytes": limit, "expires": expires})
	if err != nil {
		return nil, nil, err
	}
	nc := js.Conn()
	messages = make(chan *nats.Msg, n+1) // and a status
	if sub, err = nc.ChanSubscribe(NewInbox(nc), messages); err != nil {
		return nil, nil, err
	}
	err = nc.PublishRequest(APIPrefix(js)+"CONSUMER.MSG.NEXT."+consumer.Stream+"."+consumer.Name, sub.Subject, body)
	if err != nil {
		_ = sub.Unsubscribe()
		return nil, nil, err
	}
	return sub, messages, nil
}

// lostBy returns the error of a status that ends a consumer.
func lostBy(status *nats.Msg) error {
	return fmt.Errorf("%w: %s %s", ErrConsumerLost, status.Header.Get("Status"), status.Header.Get("Description"))
}
