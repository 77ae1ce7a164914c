package inbox_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/bus/streams"
)

// A runner joins whose credentials do not allow it to create a consumer of the inbox. It takes no partition from the
// runners that read them, not even for a moment.
func TestARunnerThatCannotReadTakesNoShare(t *testing.T) {
	t.Parallel()
	deny := &server.SubjectPermission{Deny: []string{"$JS.API.CONSUMER.CREATE.AGENT_CMD.>"}}
	s := bustest.NATS(t, &server.Options{JetStream: true, Users: []*server.User{
		{Username: "able", Password: "able", Permissions: &server.Permissions{}},
		{Username: "unable", Password: "unable", Permissions: &server.Permissions{Publish: deny}},
	}})
	connect := func(user string) *bus.Conn {
		url := strings.Replace(s.ClientURL(), "nats://", "nats://"+user+":"+user+"@", 1)
		c, err := bus.Connect(bustest.Deadline(t), bus.ConnOptions{URL: url, Name: user})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	c := connect("able")
	const partitions = 12
	if err := streams.Setup(bustest.Deadline(t), c, streams.Options{Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	var readers []*inbox.Inbox
	read := func() (n int) {
		for _, in := range readers {
			n += len(in.Partitions())
		}
		return n
	}
	for i := range 2 {
		in, _ := bustest.RunInbox(t, connect("able"), bustest.Fast(fmt.Sprint("r", i)), &fakeHandler{})
		readers = append(readers, in)
	}
	bustest.Eventually(t, "all partitions are read", func() bool { return read() == partitions })

	in, err := inbox.New(connect("unable"), bustest.Fast("r9"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx, &fakeHandler{}) }()
	bustest.Eventually(t, "the runner joins", func() bool { return len(readers[0].Runners()) == 3 })
	taken := 0
	bustest.Eventually(t, "it knows that it cannot read", func() bool {
		// A reader that reads nothing is replacing its consumer. One that has lost partitions still reads the others.
		if a, b := len(readers[0].Partitions()), len(readers[1].Partitions()); a > 0 && b > 0 {
			taken = max(taken, partitions-a-b)
		}
		err := in.Health()
		return err != nil && strings.Contains(err.Error(), "cannot read")
	})
	if taken > 0 {
		t.Errorf("%d partitions were not read", taken)
	}
	for i := range 2 * partitions {
		bustest.Send(t, c, fmt.Sprint("s", i), "hello")
	}
	bustest.Eventually(t, "all commands are read", func() bool { return bustest.Queued(t, c) == 0 })
	cancel()
	if err := bustest.Within(t, ended); err != nil {
		t.Error(err)
	}
}
