package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
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

	cancel context.CancelCauseFunc // ends the context it is handled under

	longestDelay atomic.Int64 // a time.Duration: the longest it may wait for its next delivery

	mu      sync.Mutex // keeps a sign of life from following the settlement
	settled bool
	reply   jetstream.Msg // the delivery that the server is told about: the newest
	heard   time.Time     // when the last sign of life was sent that the server has had
	silent  bool          // too long ago: another runner may have the message
	lost    bool          // another delivery has taken its place: nothing is sent any more
}

// maxConflictDelay is the longest that a message waits because another runner has its session. It is not none, so that who is
// given the message again and again does not turn in circles.
const maxConflictDelay = time.Second

// giveBack says that the message did not fail with this error: it is for another runner, or for this one when it starts anew.
func (d *delivery) giveBack(err error) {
	longest := time.Duration(0)
	if errors.Is(err, schemas.ErrConflict) {
		longest = maxConflictDelay
	}
	d.longestDelay.Store(int64(longest))
}

// errReplaced is why a handler has to stop whose message was delivered once more.
var errReplaced = fmt.Errorf("%w: the message was delivered once more after the servers had not heard of it for too long", errGivenBack)

type deliveryKey struct{}

// deliveryOf returns the delivery behind a message of the inbox.
func deliveryOf(m *message.Message) *delivery {
	d, _ := m.Context().Value(deliveryKey{}).(*delivery)
	return d
}

// receive makes a delivery of a message. Its place in line is that of the call.
func receive(ctx context.Context, p *partition, raw jetstream.Msg, md *jetstream.MsgMetadata) *delivery {
	d := &delivery{partition: p, raw: raw, reply: raw, seq: md.Sequence.Stream, count: md.NumDelivered, stored: md.Timestamp, heard: time.Now()}
	d.longestDelay.Store(int64(maxNackDelay))
	ctx, d.cancel = context.WithCancelCause(ctx)
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

// alive tells the server that the message is being worked on, unless it has not heard of it for so long that another runner
// may have it.
func (d *delivery) alive(ackWait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.silent = d.silent || time.Since(d.heard) > ackWait
	if !d.settled && !d.silent {
		d.partition.log(d, "report progress", d.reply.InProgress())
	}
}

// heardAt notes that the server has had by now what was sent at that moment.
func (d *delivery) heardAt(sent time.Time, ackWait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.silent = d.silent || time.Since(d.heard) > ackWait; !d.silent {
		d.heard = sent
	}
}

func (d *delivery) isSilent() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.silent && !d.settled
}

// adopt goes on with another delivery of the message: nobody has had it meanwhile.
func (d *delivery) adopt(again *delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reply, d.heard, d.silent = again.raw, again.heard, false
}

// replace gives the message up for another delivery of it: what is being done about it may be long out of date. Its handler is
// told to stop.
func (d *delivery) replace() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.settled {
		d.settled, d.lost = true, true
		d.cancel(errReplaced)
	}
}

// gone reports whether another delivery has taken its place.
func (d *delivery) gone() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost
}

func (d *delivery) ack() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled = true
	if d.lost {
		return nil
	}
	return d.reply.Ack()
}

// retryDelay is how long a message that was not dealt with should wait: not at all the first time, or when another runner is to
// have it; longer the more often it has been delivered where it failed, but not where it was given back: a session that has
// been handed over many times does not wait any longer for its next runner.
func (d *delivery) retryDelay() time.Duration {
	if d.count < 2 || isClosed(d.partition.over) || isClosed(d.partition.sub.draining) {
		return 0
	}
	return min(nackDelay(d.count-1), time.Duration(d.longestDelay.Load()))
}

// nak gives the message back.
func (d *delivery) nak(delay time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled = true
	if d.lost {
		return nil
	}
	if delay == 0 {
		return d.reply.Nak()
	}
	return d.reply.NakWithDelay(delay)
}
