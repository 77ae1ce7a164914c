package streams_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

func nameOf(t *testing.T, c *bus.Conn) string {
	t.Helper()
	name, err := streams.InboxName(bustest.Deadline(t), c)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// Every inbox has a name of its own, also one that replaces another, and however many processes create it at once.
func TestEveryInboxHasAName(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	names := map[string]bool{nameOf(t, c): true}
	for range 5 {
		if err := c.JetStream().DeleteStream(bustest.Deadline(t), schemas.StreamCommands); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := streams.Setup(bustest.Deadline(t), c, streams.Options{}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		names[nameOf(t, c)] = true
	}
	if len(names) != 6 || names[""] {
		t.Errorf("names %v", names)
	}
}

// The inbox of an earlier version gets a name once no command can have an id without it.
func TestInboxOfAnEarlierVersionGetsAName(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	config := configOf(t, c, schemas.StreamCommands)
	config.Metadata = map[string]string{"team": "blue"}
	config.SubjectTransform.Destination = strings.ReplaceAll(config.SubjectTransform.Destination, "{{W", "{{w")
	stream, err := c.JetStream().UpdateStream(bustest.Deadline(t), config)
	if err != nil {
		t.Fatal(err)
	}
	setup := func() string {
		t.Helper()
		if err := streams.Setup(bustest.Deadline(t), c, streams.Options{}); err != nil {
			t.Fatal(err)
		}
		return nameOf(t, c)
	}
	bustest.Send(t, c, "s1", "hello")
	if name := setup(); name != "" {
		t.Errorf("an inbox with a command is called %s", name)
	}
	if err := stream.Purge(bustest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	reader, err := stream.CreateConsumer(bustest.Deadline(t), jetstream.ConsumerConfig{
		Durable: "r1", AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "agent.cmd.1.>"})
	if err != nil {
		t.Fatal(err)
	}
	if name := setup(); name != "" {
		t.Errorf("an inbox that a runner reads is called %s", name)
	}
	if err := stream.DeleteConsumer(bustest.Deadline(t), reader.CachedInfo().Name); err != nil {
		t.Fatal(err)
	}
	name := setup()
	if !strings.HasPrefix(name, schemas.TimedInbox) || setup() != name ||
		configOf(t, c, schemas.StreamCommands).Metadata["team"] != "blue" {
		t.Errorf("it is called %q, then %q", name, setup())
	}
	// This is what an earlier version refuses.
	if to := configOf(t, c, schemas.StreamCommands).SubjectTransform.Destination; strings.Contains(to, "{{wildcard") {
		t.Errorf("the transform is %s, as that of an earlier version", to)
	}
}
