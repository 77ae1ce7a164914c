package main

import (
	"context"
	"fmt"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/cmd/internal/config"
	"github.com/loopbus/loopbus/schemas"
)

// reading are the settings of what only looks at a bus.
type reading struct {
	nats, creds, prefix, inboxPrefix string
	json                             bool
}

func (r *reading) define(s *config.Set) {
	s.String(&r.nats, "nats", "nats://127.0.0.1:4222", "URL of the NATS server, or URLs of a cluster's")
	s.String(&r.creds, "creds", "", "NATS credentials file")
	s.String(&r.prefix, "prefix", schemas.DefaultPrefix, "first token of every subject")
	s.String(&r.inboxPrefix, "inbox-prefix", "", "first tokens of the subjects that replies come to (default _INBOX)")
	s.Bool(&r.json, "json", false, "print a JSON object a line")
	s.Check(func() error {
		if _, err := schemas.NewSubjects(r.prefix); err != nil {
			return fmt.Errorf("--prefix: %w", err)
		}
		return nil
	})
}

func (r *reading) connect(ctx context.Context, name string) (*bus.Conn, error) {
	return bus.Connect(ctx, bus.ConnOptions{URL: r.nats, CredsFile: r.creds, Prefix: r.prefix, InboxPrefix: r.inboxPrefix, Name: name})
}
