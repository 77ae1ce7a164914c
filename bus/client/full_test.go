package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// A client that sends more commands of a kind than may wait for a session gets ErrInboxFull, both when the client
// gives up and when its context ends. Until then it retries, and succeeds as soon as there is room.
func TestFullInboxIsReported(t *testing.T) {
	t.Parallel()
	const most = 1000
	_, c := bustest.Small(t)
	var all errgroup.Group
	all.SetLimit(16)
	for range most {
		all.Go(func() error {
			_, err := c.JetStream().Publish(bustest.Deadline(t), "agent.cmd.s1.abort", []byte("{}"))
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	impatient, err := client.New(c.NATS(), client.Options{RequestTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := impatient.Session("s1").Send(t.Context(), &schemas.Abort{}); !errors.Is(err, client.ErrInboxFull) {
		t.Errorf("given up by the client: %v", err)
	}
	patient := bustest.Client(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := patient.Session("s1").Send(ctx, &schemas.Abort{}); !errors.Is(err, client.ErrInboxFull) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("given up by the caller: %v", err)
	}
	if _, err := patient.Session("s2").Send(t.Context(), &schemas.Abort{}); err != nil {
		t.Errorf("to another session: %v", err)
	}
	stream, err := c.JetStream().Stream(t.Context(), schemas.StreamCommands)
	if err != nil {
		t.Fatal(err)
	}
	room := time.AfterFunc(200*time.Millisecond, func() { _ = stream.DeleteMsg(context.Background(), 1) })
	defer room.Stop()
	if _, err := patient.Session("s1").Send(t.Context(), &schemas.Abort{}); err != nil {
		t.Errorf("while there is room: %v", err)
	}
}

// Whether a command may be stored in spite of the error is known to the sender: it may, if it was published and the
// server did not answer.
func TestWhatMayBeStoredIsReported(t *testing.T) {
	t.Parallel()
	s := bustest.NATS(t, &server.Options{JetStream: true})
	c := bustest.Dial(t, bus.ConnOptions{URL: s.ClientURL(), Name: t.Name()})
	bustest.Setup(t, c, streams.Options{Partitions: bustest.SmallPartitions})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.NATS().Subscribe("held", func(*nats.Msg) { cancel() })
	if err = errors.Join(err, c.NATS().Flush(), s.GlobalAccount().AddMapping("agent.cmd.s1.abort", "held")); err != nil {
		t.Fatal(err)
	}
	session := bustest.Client(t, c).Session("s1")
	for _, published := range []bool{true, false} { // the second time, the context has ended before
		_, err := session.Send(ctx, &schemas.Abort{})
		if !errors.Is(err, context.Canceled) || errors.Is(err, client.ErrUnacknowledged) != published {
			t.Errorf("got %v, want it not acknowledged: %t", err, published)
		}
	}
}

// A stream that stores queries acknowledges each of them, which is no answer: it would be an empty list.
func TestQueryPassesOverAcknowledgements(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	_, err := c.JetStream().CreateStream(bustest.Deadline(t),
		jetstream.StreamConfig{Name: "AUDIT", Subjects: []string{"agent.query.>"}})
	if err != nil {
		t.Fatal(err)
	}
	asking, err := client.New(c.NATS(), client.Options{RequestTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if page, err := asking.Session("s1").Messages(t.Context(), schemas.MessagesQuery{}); err == nil {
		t.Errorf("without a runner the answer is %+v", page)
	}
}
