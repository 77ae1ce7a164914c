package live

import (
	"context"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// WatchUpdates yields what the update stream still holds of a session's updates, then the live ones as they come, with
// no gap and none twice, until ctx ends or the caller stops. What is no update of the session is passed over: anybody
// can publish there. An error is the last thing yielded. Each call takes a consumer on the server for as long as it
// runs.
func Watch(ctx context.Context, c *bus.Conn, session string) iter.Seq2[schemas.Update, error] {
	return func(yield func(schemas.Update, error) bool) {
		it, err := updateMessages(ctx, c, session)
		if err != nil {
			yield(schemas.Update{}, err)
			return
		}
		defer it.Stop()
		for {
			msg, err := it.Next(jetstream.NextContext(ctx))
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				yield(schemas.Update{}, fmt.Errorf("live: watch updates of session %s: %w", session, err))
				return
			}
			update, err := schemas.DecodeUpdate(msg.Headers(), msg.Data())
			if err != nil || update.Session != session {
				continue
			}
			if !yield(update, nil) {
				return
			}
		}
	}
}

func updateMessages(ctx context.Context, c *bus.Conn, session string) (jetstream.MessagesContext, error) {
	err := schemas.CheckSession(session)
	var consumer jetstream.Consumer
	if err == nil {
		consumer, err = c.JetStream().OrderedConsumer(ctx, schemas.StreamUpdates, jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{c.Subjects().LiveUpdate(session)}, DeliverPolicy: jetstream.DeliverAllPolicy})
	}
	if err == nil {
		var it jetstream.MessagesContext
		if it, err = consumer.Messages(); err == nil {
			return it, nil
		}
	}
	return nil, fmt.Errorf("live: watch updates of session %q: %w", session, err)
}
