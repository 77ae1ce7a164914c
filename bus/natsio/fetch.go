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
		sub, err := request(ctx, js, consumer, n, limit)
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() { _ = sub.Unsubscribe() }() // it fails only if the connection is closed
		for range n {
			m, err := sub.NextMsgWithContext(ctx)
			switch {
			case err != nil:
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

// request sends a pull request.
func request(ctx context.Context, js jetstream.JetStream, consumer *jetstream.ConsumerInfo, n, limit int,
) (*nats.Subscription, error) {
	expires := fetchExpiry
	if deadline, ok := ctx.Deadline(); ok {
		expires = time.Until(deadline) * 9 / 10 // so that the server ends it first
	}
	if expires <= 0 {
		return nil, context.DeadlineExceeded // also before the timer of ctx has fired
	}
	body, err := json.Marshal(map[string]any{"batch": n, "max_bytes": limit, "expires": expires})
	if err != nil {
		return nil, err
	}
	nc := js.Conn()
	sub, err := nc.SubscribeSync(NewInbox(nc))
	if err != nil {
		return nil, err
	}
	err = sub.SetPendingLimits(-1, -1) // the request bounds what is pending
	if err == nil {
		err = nc.PublishRequest(APIPrefix(js)+"CONSUMER.MSG.NEXT."+consumer.Stream+"."+consumer.Name, sub.Subject, body)
	}
	if err != nil {
		_ = sub.Unsubscribe()
		return nil, err
	}
	return sub, nil
}

// lostBy returns the error of a status that ends a consumer.
func lostBy(status *nats.Msg) error {
	return fmt.Errorf("%w: %s %s", ErrConsumerLost, status.Header.Get("Status"), status.Header.Get("Description"))
}
