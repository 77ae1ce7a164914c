package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

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

// look parses the arguments and has use look at the bus; s has the settings, and its name is that of the connection.
func (r *reading) look(ctx context.Context, s *config.Set, args []string, getenv func(string) string, out io.Writer,
	use func(context.Context, *bus.Conn) error,
) error {
	if _, err := s.Parse(args, getenv, out, false); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := bus.Connect(ctx, bus.ConnOptions{
		URL: r.nats, CredsFile: r.creds, Prefix: r.prefix, InboxPrefix: r.inboxPrefix, Name: "loopbus " + s.Name(),
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	return use(ctx, conn)
}

// printLines prints a JSON object a line.
func printLines[T any](list []T, out io.Writer) (err error) {
	lines := json.NewEncoder(out)
	for _, v := range list {
		err = errors.Join(err, lines.Encode(v))
	}
	return err
}
