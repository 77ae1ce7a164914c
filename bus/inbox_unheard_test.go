package bus_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// takeAndDie reads all partitions as a runner would that is gone before it has looked at anything.
func takeAndDie(t *testing.T, c *bus.Conn, messages int) {
	t.Helper()
	stream, err := c.JetStream().Stream(deadline(t), schemas.StreamCommands)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(deadline(t))
	defer cancel()
	var reading sync.WaitGroup
	var taken atomic.Int64
	for p := range testPartitions {
		consumer, err := stream.Consumer(deadline(t), fmt.Sprintf("p%d", p))
		if err != nil {
			t.Fatal(err)
		}
		batch, err := consumer.Fetch(messages, jetstream.FetchPriorityGroup("runner"), jetstream.FetchContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		reading.Go(func() {
			for range batch.Messages() {
				if taken.Add(1) == int64(messages) {
					cancel()
				}
			}
		})
	}
	reading.Wait()
	if n := int(taken.Load()); n != messages {
		t.Fatalf("%d of %d messages were taken", n, messages)
	}
}

// What a runner had received that died comes to another one only after AckWait. What was sent later, which that one
// receives at once, does not pass it.
func TestCommandsDoNotPassThoseThatDiedWithTheirReader(t *testing.T) {
	t.Parallel()
	s, c := newSmallBus(t)
	options := func(id string) bus.InboxOptions {
		o := fastOptions(id)
		o.AckWait = 3 * time.Second // time for the other to be there before
		return o
	}
	_, stop := runInbox(t, connect(t, s), options("a"), newLedger().handler("a"))
	if err := stop(); err != nil { // the consumers are there
		t.Fatal(err)
	}
	const sessions = 20
	text := func(i int) string { return fmt.Sprintf("%06d", i) }
	for i := range sessions {
		send(t, c, fmt.Sprintf("s%d", i), text(0))
		send(t, c, fmt.Sprintf("s%d", i), text(1))
	}
	takeAndDie(t, connect(t, s), 2*sessions)
	l := newLedger()
	runInbox(t, connect(t, s), options("b"), l.handler("b"))
	for i := range sessions {
		send(t, c, fmt.Sprintf("s%d", i), text(2))
	}
	l.check(t, c, sessions, 3)
}
