package natsio

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// pushBytes limits what a push consumer has delivered and its reader has not taken. It is several times what a bucket
// may have: if the reader of a bucket fell behind it, all would be delivered again, for ever.
const pushBytes = 256 << 20

// pushHeartbeat is the interval at which a push consumer with nothing to deliver says so. Tests shorten it.
var pushHeartbeat = 2 * time.Second

// errMissed is returned when a push consumer has delivered something that has not arrived.
var errMissed = errors.New("a message was missed")

// Push is a push consumer of what a stream has on a subject from a sequence on, and of what it will have. It ends with
// the server that has the consumer, with a message that is missed and with a lost connection: then the caller makes
// another one. The ordered consumer of nats.go replaces itself, but late, and if that fails it falls silent for ever
// (decision 169).
type Push struct {
	Stored   uint64         // messages that the stream had at the beginning, from the sequence on
	Messages chan *nats.Msg // deliveries and heartbeats; unbuffered, because the connection queues them

	nc      *nats.Conn
	sub     *nats.Subscription
	closed  chan struct{}
	delete  string // the subject that deletes the consumer
	last    uint64 // delivery that has arrived
	silence *time.Timer
	status  chan nats.Status
}

// NewPush returns a push consumer from sequence from on, at least 1. Only one goroutine may use it.
func NewPush(ctx context.Context, js jetstream.JetStream, stream, subject string, from uint64) (*Push, error) {
	p := &Push{nc: js.Conn(), silence: time.NewTimer(3 * pushHeartbeat), Messages: make(chan *nats.Msg),
		closed: make(chan struct{})}
	p.status = p.nc.StatusChanged(nats.CONNECTED)
	var err error
	p.sub, err = p.nc.Subscribe(NewInbox(p.nc), func(m *nats.Msg) {
		select {
		case p.Messages <- m:
		case <-p.closed:
		}
	})
	if err == nil {
		err = p.sub.SetPendingLimits(-1, pushBytes)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	consumer, err := js.CreatePushConsumer(ctx, stream, jetstream.ConsumerConfig{
		DeliverSubject: p.sub.Subject, FilterSubject: subject, AckPolicy: jetstream.AckNonePolicy,
		IdleHeartbeat: pushHeartbeat, MemoryStorage: true, Replicas: 1,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
	})
	if err != nil {
		p.Close()
		return nil, err
	}
	p.delete = APIPrefix(js) + "CONSUMER.DELETE." + stream + "." + consumer.CachedInfo().Name
	p.Stored = consumer.CachedInfo().NumPending
	return p, nil
}

// Received returns the metadata of a message that has arrived; nil for a heartbeat, with which all is delivered that
// the stream has. Its error means that the consumer has ended.
func (p *Push) Received(m *nats.Msg) (*nats.MsgMetadata, error) {
	p.silence.Reset(3 * pushHeartbeat)
	if m.Reply == "" {
		last, err := strconv.ParseUint(m.Header.Get("Nats-Last-Consumer"), 10, 64)
		switch {
		case err != nil:
			return nil, lostBy(m)
		case last != p.last:
			return nil, fmt.Errorf("%w: delivery %d is the last, and %d has arrived", errMissed, last, p.last)
		}
		return nil, nil
	}
	md, err := m.Metadata()
	if err != nil {
		return nil, err
	}
	if p.last++; md.Sequence.Consumer != p.last {
		return nil, fmt.Errorf("%w: delivery %d after %d", errMissed, md.Sequence.Consumer, p.last-1)
	}
	return md, nil
}

// Waiting returns how many messages have arrived and were not taken.
func (p *Push) Waiting() int {
	n, _, _ := p.sub.Pending() // it fails only if the subscription has ended
	return n
}

// Silence receives a value if the consumer has sent nothing for too long. Then call [Push.Silent].
func (p *Push) Silence() <-chan time.Time { return p.silence.C }

// Silent returns an error, unless nothing can arrive because the connection is lost, or what has arrived was not taken.
func (p *Push) Silent() error {
	if p.nc.IsReconnecting() || p.Waiting() > 0 {
		p.silence.Reset(3 * pushHeartbeat)
		return nil
	}
	return errNoHeartbeat
}

// Reconnected receives a value when the connection was lost and is back: the consumer has ended.
func (p *Push) Reconnected() <-chan nats.Status { return p.status }

// Close deletes the consumer.
func (p *Push) Close() {
	close(p.closed)
	p.nc.RemoveStatusListener(p.status)
	p.silence.Stop()
	if p.sub != nil {
		_ = p.sub.Unsubscribe() // it fails only if the connection is closed
	}
	if p.delete != "" {
		_ = p.nc.Publish(p.delete, nil) // the server deletes it soon anyway
	}
}
