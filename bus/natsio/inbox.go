package natsio

import (
	"cmp"
	"context"
	"crypto/rand"
	"strings"

	"github.com/nats-io/nats.go"
)

// NewInbox returns a subject for answers that nobody can guess. Those of the library ([nats.Conn.NewInbox]) count up:
// who has seen one, because he was asked something, knows those beside it, and could have a server answer there.
func NewInbox(nc *nats.Conn) string { return InboxBelow(nc, rand.Text()) }

// InboxBelow returns a subject below the inbox prefix of a connection.
func InboxBelow(nc *nats.Conn, tokens string) string {
	prefix := cmp.Or(nc.Opts.InboxPrefix, nats.InboxPrefix)
	return strings.TrimSuffix(prefix, ".") + "." + tokens
}

// Request asks those who listen at a subject, and returns the first answer, or [nats.ErrNoResponders]. It does so with
// an inbox of its own ([NewInbox]): those of the connection's requests can be computed by who has seen some of them,
// and other answers that the process waits for come to these.
func Request(ctx context.Context, nc *nats.Conn, subject string, data []byte) (*nats.Msg, error) {
	answers := make(chan *nats.Msg, 1) // the first counts
	sub, err := nc.ChanSubscribe(NewInbox(nc), answers)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest(subject, sub.Subject, data); err != nil {
		return nil, err
	}
	select {
	case m := <-answers:
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			return nil, nats.ErrNoResponders
		}
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
