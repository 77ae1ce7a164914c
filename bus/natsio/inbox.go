package natsio

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/headerlimit"
)

// NewInbox returns a reply subject that no other client can guess. Those of [nats.Conn.NewInbox] are sequential: a
// client that has received a request knows the next ones, and could have a server answer there.
func NewInbox(nc *nats.Conn) string { return InboxBelow(nc, rand.Text()) }

// InboxBelow returns a subject below the inbox prefix of a connection.
func InboxBelow(nc *nats.Conn, tokens string) string {
	prefix := cmp.Or(nc.Opts.InboxPrefix, nats.InboxPrefix)
	return strings.TrimSuffix(prefix, ".") + "." + tokens
}

// Request sends a request to a subject and returns the first answer of a service, or [nats.ErrNoResponders]. Where a
// stream stores the subject, the server acknowledges the request at the same inbox: an acknowledgement is no answer.
// Request uses an inbox of its own ([NewInbox]): the inboxes of the connection's requests can be computed by a client
// that has seen some of them.
// An answer whose headers were left out (package headerlimit) is an error, as it may have been one.
func Request(ctx context.Context, nc *nats.Conn, subject string, data []byte) (*nats.Msg, error) {
	m, err := request(ctx, nc, subject, data, func(m *nats.Msg) bool { return !IsAck(m.Data) })
	if err == nil && headerlimit.LeftOut(m.Header) {
		return nil, fmt.Errorf("the answer has more than %d headers, or %d bytes of them", headerlimit.Most,
			headerlimit.MostBytes)
	}
	return m, err
}

// DirectGet sends a direct get of one message, and returns the answer: the message, or a status. The requests of
// nats.go take a stored message without payload that has the header of the status 503 for the answer that nobody
// answers. Such messages are rare, so only then the request is sent another way.
func DirectGet(ctx context.Context, nc *nats.Conn, subject string, data []byte) (*nats.Msg, error) {
	m, err := nc.RequestWithContext(ctx, subject, data)
	if errors.Is(err, nats.ErrNoResponders) {
		return request(ctx, nc, subject, data, func(*nats.Msg) bool { return true })
	}
	return m, err
}

func request(ctx context.Context, nc *nats.Conn, subject string, data []byte, isAnswer func(*nats.Msg) bool,
) (*nats.Msg, error) {
	answers := make(chan *nats.Msg, 2) // an acknowledgement, and the answer that counts
	sub, err := nc.ChanSubscribe(NewInbox(nc), answers)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest(subject, sub.Subject, data); err != nil {
		return nil, err
	}
	for {
		select {
		case m := <-answers:
			switch {
			case len(m.Data) == 0 && m.Header.Get("Status") == "503" && m.Header.Get(jetstream.StreamHeader) == "":
				return nil, nats.ErrNoResponders
			case isAnswer(m):
				return m, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// IsAck reports whether a payload is what a server answers for a stream that has stored a message, or has refused to.
func IsAck(data []byte) bool {
	var ack struct {
		Stream string  `json:"stream"`
		Seq    *uint64 `json:"seq"`
	}
	return json.Unmarshal(data, &ack) == nil && ack.Stream != "" && ack.Seq != nil
}
