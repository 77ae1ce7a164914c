package natsio

import (
	"cmp"
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
