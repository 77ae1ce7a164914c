package bustest

import (
	"context"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// patience is how long a test waits for an event that has to happen.
const patience = 90 * time.Second

// Client returns a Go client on a connection.
func Client(t testing.TB, c *bus.Conn) *client.Client {
	t.Helper()
	cl, err := client.New(c.NATS(), client.Options{Prefix: c.Subjects().Prefix(), Name: t.Name(),
		RequestTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// Command sends a command to a session and returns when it is stored.
func Command(t testing.TB, s *client.Session, data schemas.CommandData, opts ...client.Option) client.Sent {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sent, err := s.Send(ctx, data, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

// Prompt sends a prompt to a session and returns when it is stored.
func Prompt(t testing.TB, s *client.Session, text string) client.Sent {
	t.Helper()
	return Command(t, s, &schemas.Prompt{Input: client.Text(text)})
}

// Until follows a session's log from its first event and returns it up to the first event for which last returns true.
// what describes that event in the failure message.
func Until(t testing.TB, s *client.Session, what string, last func(schemas.Event) bool) (log []schemas.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for item, err := range s.Watch(ctx, 1) {
		if err != nil {
			t.Fatalf("session %s: waiting for %s: %v, the log is %v", s.ID(), what, err, Types(log))
		}
		if item.Event == nil {
			continue
		}
		if log = append(log, *item.Event); last(*item.Event) {
			return log
		}
	}
	return log // not reached: the sequence ends with an error
}

// Nth returns a function that returns true for the nth event of a type.
func Nth(n int, of schemas.EventType) func(schemas.Event) bool {
	return func(e schemas.Event) bool {
		if e.Type() == of {
			n--
		}
		return n == 0
	}
}

// Types returns the types of a log's events.
func Types(log []schemas.Event) []schemas.EventType {
	types := make([]schemas.EventType, len(log))
	for i, e := range log {
		types[i] = e.Type()
	}
	return types
}
