package bustest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/schemas"
)

// Fast returns options of an inbox with all durations short.
func Fast(id string) inbox.Options {
	return inbox.Options{RunnerID: id, HandoverWait: 500 * time.Millisecond, StopTimeout: 5 * time.Second}
}

// RunInbox starts an inbox and returns once it is ready. The inbox runs until the test ends or stop is called; stop
// returns the error of Run.
func RunInbox(t testing.TB, c *bus.Conn, o inbox.Options, h inbox.Handler) (in *inbox.Inbox, stop func() error) {
	t.Helper()
	in, err := inbox.New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx, h) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
			return fmt.Errorf("inbox %s did not stop", o.RunnerID)
		}
	})
	t.Cleanup(func() {
		if err := stop(); err != nil && !t.Failed() {
			t.Logf("inbox %s: %v", o.RunnerID, err)
		}
	})
	select {
	case <-in.Ready():
	case err := <-done:
		done <- err
		t.Fatalf("inbox %s did not start: %v", o.RunnerID, err)
	case <-time.After(patience):
		t.Fatalf("inbox %s is not ready", o.RunnerID)
	}
	return in, stop
}

// NoHost implements the methods of an [inbox.Handler] that a test without sessions does not need: the owner of a
// session is unknown, every session has a log, and none waits for memory.
type NoHost struct{}

// Owns returns an error.
func (NoHost) Owns(context.Context, string) error { return errors.New("ownership is not known") }

// Absent returns false.
func (NoHost) Absent(context.Context, string) bool { return false }

// Hold holds nothing.
func (NoHost) Hold(ctx context.Context, _ string, _ func()) (holding context.Context, release func(), err error) {
	return ctx, func() {}, nil
}

// Send publishes a prompt in plain text.
func Send(t testing.TB, c *bus.Conn, session, text string) {
	t.Helper()
	_, err := c.JetStream().Publish(Deadline(t), c.Subjects().Command(session, schemas.CommandPrompt), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
}
