package bus

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// delivery is a message in hand, from its receipt until it is settled.
type delivery struct {
	partition *partition
	raw       jetstream.Msg
	msg       *message.Message
	seq       uint64 // in the stream
	count     uint64 // deliveries, this one included
	stored    time.Time
	place     *ticket

	mu      sync.Mutex // keeps a sign of life from following the settlement
	settled bool
}

type deliveryKey struct{}

// deliveryOf returns the delivery behind a message of the inbox.
func deliveryOf(m *message.Message) *delivery {
	d, _ := m.Context().Value(deliveryKey{}).(*delivery)
	return d
}

// receive makes a delivery of a message. Its place in line is that of the call.
func receive(ctx context.Context, p *partition, raw jetstream.Msg, md *jetstream.MsgMetadata) *delivery {
	d := &delivery{partition: p, raw: raw, seq: md.Sequence.Stream, count: md.NumDelivered, stored: md.Timestamp}
	d.msg = newMessage(context.WithValue(ctx, deliveryKey{}, d), raw)
	return d
}

// id is the id of the command that brings none of its own: the same at every delivery.
func (d *delivery) id() string { return "cmd-" + strconv.FormatUint(d.seq, 10) }

// commandID is the id that the sender of a message that is no command may know it by, if it gave a legal one.
func (d *delivery) commandID() string {
	for _, name := range []string{schemas.HeaderID, jetstream.MsgIDHeader} {
		if id := first(d.raw.Headers(), name); id != "" && checkCommandID(id) == nil {
			return id
		}
	}
	return d.id()
}

// alive tells the server that the message is being worked on.
func (d *delivery) alive() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.settled {
		d.partition.log(d, "report progress", d.raw.InProgress())
	}
}

func (d *delivery) ack() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled = true
	return d.raw.Ack()
}

// retryDelay is how long a message that failed should wait: not at all the first time, or when another runner is to
// have it, and longer the more often it has been delivered.
func (d *delivery) retryDelay(atOnce bool) time.Duration {
	if atOnce || d.count < 2 {
		return 0
	}
	return nackDelay(d.count - 1)
}

// nak gives the message back.
func (d *delivery) nak(delay time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled = true
	if delay == 0 {
		return d.raw.Nak()
	}
	return d.raw.NakWithDelay(delay)
}
