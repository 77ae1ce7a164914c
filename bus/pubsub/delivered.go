package pubsub

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// delivered makes a [jetstream.Msg] of a message of a pull consumer: package jetstream exports no constructor.
type delivered struct{ msg *nats.Msg }

var _ jetstream.Msg = delivered{}

func (d delivered) Data() []byte         { return d.msg.Data }
func (d delivered) Headers() nats.Header { return d.msg.Header }
func (d delivered) Subject() string      { return d.msg.Subject }
func (d delivered) Reply() string        { return d.msg.Reply }

func (d delivered) Metadata() (*jetstream.MsgMetadata, error) {
	md, err := d.msg.Metadata()
	if err != nil {
		return nil, errors.Join(jetstream.ErrNotJSMessage, err)
	}
	return &jetstream.MsgMetadata{
		Sequence:     jetstream.SequencePair{Consumer: md.Sequence.Consumer, Stream: md.Sequence.Stream},
		NumDelivered: md.NumDelivered, NumPending: md.NumPending, Timestamp: md.Timestamp, Stream: md.Stream,
		Consumer: md.Consumer, Domain: md.Domain,
	}, nil
}

func (d delivered) Ack() error                             { return d.msg.Ack() }
func (d delivered) DoubleAck(ctx context.Context) error    { return d.msg.AckSync(nats.Context(ctx)) }
func (d delivered) Nak() error                             { return d.msg.Nak() }
func (d delivered) NakWithDelay(delay time.Duration) error { return d.msg.NakWithDelay(delay) }
func (d delivered) InProgress() error                      { return d.msg.InProgress() }
func (d delivered) Term() error                            { return d.msg.Term() }

func (d delivered) TermWithReason(reason string) error {
	return d.msg.RespondMsg(&nats.Msg{Data: []byte("+TERM " + reason)})
}
