//go:build unix

package cluster_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/integration/internal/cluster"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// publishHidden publishes a message that asks for a trace, hidden behind a status line from the server that would check
// the permission for its destination.
func publishHidden(t *testing.T, address, subject, dest string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	header := "NATS/1.0 200 x\r\nAccept-Encoding: gzip\r\nNats-Trace-Dest: " + dest + "\r\n\r\n"
	_, err = fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"headers\":true}\r\nHPUB %s %d %d\r\n%sx\r\nPING\r\n", subject,
		len(header), len(header)+1, header)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if line := lines.Text(); line == "PONG" {
			return
		} else if strings.HasPrefix(line, "-ERR") {
			t.Fatal(line)
		}
	}
	t.Fatal("the server has closed the connection")
}

// tracesPurgeNothing shows a fault of nats-server, and what is done against it (docs/security.md#clusters): a server
// publishes a trace of a stored message that it gets from another server at any subject for which the message asks. A
// compressed trace purged a stream, as a request that is no JSON asks for all of it.
func tracesPurgeNothing(t *testing.T, c *cluster.Cluster) {
	conn := system.Connect(t, c.URL(), "admin")
	for _, name := range []string{"kept", "asks"} {
		_, err := conn.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name}})
		if err == nil {
			_, err = conn.JetStream().Publish(t.Context(), name, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	other := (c.LeaderOf(conn, "asks") + 1) % c.Size()
	reader := system.Connect(t, c.URLOf(other), "reader")
	traced, err := reader.NATS().SubscribeSync("traced")
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(c.URLOf(other), "nats://")
	publishHidden(t, address, "asks", "$JS.API.STREAM.PURGE.kept")
	publishHidden(t, address, "asks", "traced")
	consumer, err := reader.JetStream().CreateConsumer(t.Context(), "asks", jetstream.ConsumerConfig{Durable: "x"})
	if err != nil {
		t.Fatal(err)
	}
	read, err := consumer.Consume(func(jetstream.Msg) {})
	if err != nil {
		t.Fatal(err)
	}
	defer read.Stop()
	if _, err := traced.NextMsgWithContext(t.Context()); err != nil {
		t.Fatal("the server has traced nothing: is the fault mended?", err)
	}
	// The request to purge came before, and takes no longer than these.
	for range 20 {
		s, err := conn.JetStream().Stream(t.Context(), "kept")
		if err != nil || s.CachedInfo().State.Msgs != 1 {
			t.Fatalf("%+v, %v", s, err)
		}
	}
	if err := conn.JetStream().DeleteStream(t.Context(), "kept"); err != nil { // by whatever server
		t.Error(err)
	}
	if err := reader.JetStream().DeleteStream(t.Context(), "asks"); err != nil {
		t.Error(err)
	}
}

// Commands that ask for a trace to the API are not delivered to runners at other servers. They are moved to the dead
// letters, and nobody waits for them.
func tracedCommandsAreRemoved(t *testing.T, c *cluster.Cluster) {
	conn := system.Connect(t, c.URL(), "sender")
	one := system.Start(t, c.URLOf(0), system.Options{Model: worker(t), Tools: toolsOf(new(counted)), Streams: replicated})
	one.Prompted(t, "before", "go", 1)
	stream := func(name string) jetstream.Stream {
		s, err := conn.JetStream().Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	commands, dead := stream(schemas.StreamCommands), stream(schemas.StreamDead)
	system.Eventually(t, "another server than the runner's leads its consumer", func() bool {
		for info := range commands.ListConsumers(t.Context()).Info() {
			if info.Cluster.Leader != "" && info.Cluster.Leader != one.Client.NATS().ConnectedServerName() {
				return true
			}
			step := "$JS.API.CONSUMER.LEADER.STEPDOWN." + schemas.StreamCommands + "." + info.Name
			if _, err := conn.NATS().RequestWithContext(t.Context(), step, nil); err != nil {
				t.Error(err)
			}
		}
		return false
	})
	const sent = 9
	for i := range sent {
		address := strings.TrimPrefix(c.URLOf(i%c.Size()), "nats://")
		publishHidden(t, address, "agent.cmd.traced.approve", "$JS.API.STREAM.PURGE.AGENT_EVT")
	}
	one.Prompted(t, "traced", "go", 1)
	one.Prompted(t, "after", "go", 1)
	one.EmptyInbox(t)
	after, traced := stream(schemas.StreamDead), 0
	first := dead.CachedInfo().State.LastSeq + 1
	for seq := first; seq <= after.CachedInfo().State.LastSeq; seq++ {
		m, err := after.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(m.Header.Get(schemas.HeaderDeadReason), "asks servers for a trace") {
			traced++
		}
	}
	// Meanwhile another consumer may have delivered some, if the runner's server leads it.
	if n := after.CachedInfo().State.LastSeq + 1 - first; n != sent || traced == 0 {
		t.Errorf("%d dead letters, %d of them as they ask for a trace; want %d", n, traced, sent)
	}
}
