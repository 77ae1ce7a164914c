package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// QueueLoad is the load of a tool's queue.
type QueueLoad struct {
	Queue   schemas.ToolQueue
	Waiting uint64 // calls that no worker has
	AtWork  int    // calls that workers have and have not settled

	delivered uint64    // the sequence up to which the stream's calls have been delivered at least once
	at        time.Time // by the server's clock
}

// QueueLoads returns the load of every queue that has ever had a worker, in no order.
func QueueLoads(ctx context.Context, c *bus.Conn) ([]QueueLoad, error) {
	stream, err := c.JetStream().Stream(ctx, schemas.StreamTools)
	if err != nil {
		return nil, fmt.Errorf("dispatch: queues of tools: %w", err)
	}
	var loads []QueueLoad
	consumers := stream.ListConsumers(ctx)
	for info := range consumers.Info() { // to the end: a lister that is left before leaks a goroutine
		if q, ok := queueOf(c.Subjects(), info); ok {
			loads = append(loads, QueueLoad{Queue: q, Waiting: info.NumPending, AtWork: info.NumAckPending,
				delivered: info.Delivered.Stream, at: info.TimeStamp})
		}
	}
	if err := consumers.Err(); err != nil {
		return nil, fmt.Errorf("dispatch: queues of tools: %w", err)
	}
	return loads, nil
}

// queueOf returns the queue whose workers share a consumer, which has the queue's name.
func queueOf(s schemas.Subjects, info *jetstream.ConsumerInfo) (schemas.ToolQueue, bool) {
	q, err := schemas.ParseToolQueue(info.Name)
	return q, err == nil && info.Config.FilterSubject == s.Tool(info.Name, "*", "*")
}
