package natsio

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// publishAttempt bounds one attempt to publish, because the acknowledgement may be lost with a connection.
const publishAttempt = 2 * time.Second

// Publish stores a message, and retries until ctx ends while the server is unavailable or busy, the stream has no
// leader, or an acknowledgement is lost. The message needs an id ([jetstream.MsgIDHeader]) by which the stream drops a
// second copy, or a receiver that applies it once. After an error it may have been stored.
func Publish(ctx context.Context, js jetstream.JetStream, msg *nats.Msg) (*jetstream.PubAck, error) {
	for {
		attempt, done := context.WithTimeout(ctx, publishAttempt)
		ack, err := js.PublishMsg(attempt, msg, UntilLeader())
		done()
		if !IsAny(err, nats.ErrReconnectBufExceeded, context.DeadlineExceeded) && !TooMany(err) || !Wait(ctx, RetryWait) {
			return ack, err
		}
	}
}
