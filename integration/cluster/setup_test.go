//go:build unix

package cluster_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/integration/internal/cluster"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// What one process has set up without replicas another that asks for them upgrades, with what is in it; any number of
// processes may do so at once. Nobody takes replicas away in passing.
func TestReplicasOfExistingStreams(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	one := system.Start(t, c.URL(), system.Options{Model: worker(t), Tools: toolsOf(new(counted))})
	one.Prompted(t, "s1", "go", 1)
	wantReplicas(t, one.Client, 1)

	var all sync.WaitGroup
	for range 3 {
		conn := system.Connect(t, c.URL(), "setup")
		all.Go(func() {
			if err := streams.Setup(t.Context(), conn, replicated); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	wantReplicas(t, one.Client, 3)
	one.Prompted(t, "s1", "go on", 2)
	one.EmptyInbox(t)
	one.Verify(t, "s1")
	wantOnDisk(t, one.Client)

	if err := streams.Setup(t.Context(), one.Client, streams.Options{}); err != nil {
		t.Errorf("asked for no number: %v", err)
	}
	var incompatible *streams.IncompatibleError
	err := streams.Setup(t.Context(), one.Client, streams.Options{Replicas: 1})
	if !errors.As(err, &incompatible) || incompatible.Setting != "replicas" ||
		!strings.Contains(err.Error(), "nats stream edit") {
		t.Errorf("asked for fewer: %v", err)
	}
	wantReplicas(t, one.Client, 3)
	if err := streams.Setup(t.Context(), one.Client, streams.Options{Replicas: 5}); err == nil ||
		!strings.Contains(err.Error(), "5 replicas need as many servers") {
		t.Errorf("asked for more than there are servers: %v", err)
	}
	d, err := streams.DurabilityOf(t.Context(), one.Client)
	if err != nil || d.PageCache || !strings.Contains(d.Text, "3 replicas") ||
		!strings.Contains(d.Text, "cannot be seen") {
		t.Errorf("durability %+v, %v", d, err)
	}
}

// streamsWanted is how many streams there are, with those of the buckets.
const streamsWanted = 17

// wantReplicas looks at all streams and buckets, and waits for the consumers of the inbox.
func wantReplicas(t *testing.T, conn *bus.Conn, want int) {
	t.Helper()
	var names []string
	system.Eventually(t, "the servers tell of all streams", func() bool { // not while leaders change
		streams := conn.JetStream().ListStreams(t.Context())
		names = nil
		for info := range streams.Info() {
			names = append(names, info.Config.Name)
			if info.Config.Replicas != want {
				t.Errorf("%s has %d replicas, want %d", info.Config.Name, info.Config.Replicas, want)
			}
		}
		slices.Sort(names)
		names = slices.Compact(names)
		return streams.Err() == nil && len(names) >= streamsWanted
	})
	if len(names) != streamsWanted || !slices.Contains(names, schemas.StreamEvents) {
		t.Errorf("streams %q", names)
	}
	system.Eventually(t, "the consumer of the runner has as many", func() bool {
		stream, err := conn.JetStream().Stream(t.Context(), schemas.StreamCommands)
		if err != nil {
			return false
		}
		good := 0
		consumers := stream.ListConsumers(t.Context())
		for info := range consumers.Info() {
			if 1+len(info.Cluster.Replicas) == want && info.Cluster.Leader != "" {
				good++
			}
		}
		return consumers.Err() == nil && good == 1
	})
}

// wantOnDisk wants no stream with replicas to be in memory, where it would wait for all servers once most of them were
// down.
func wantOnDisk(t *testing.T, conn *bus.Conn) {
	t.Helper()
	for info := range conn.JetStream().ListStreams(t.Context()).Info() {
		if info.Config.Storage != jetstream.FileStorage {
			t.Errorf("stream %s is in memory", info.Config.Name)
		}
	}
}

// Two servers are no place for three replicas: nothing is half set up.
func TestReplicasNeedServers(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Servers: 2})
	conn := system.Connect(t, c.URL(), "setup")
	if err := streams.Setup(t.Context(), conn, replicated); err == nil ||
		!strings.Contains(err.Error(), "3 replicas need as many servers") {
		t.Errorf("error %v", err)
	}
	for name := range conn.JetStream().StreamNames(t.Context()).Name() {
		t.Errorf("stream %s was made", name)
	}
}

// TestWithReplicas has the tests that need nothing but streams with replicas. They share three servers.
func TestWithReplicas(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	if err := streams.Setup(t.Context(), system.Connect(t, c.URL(), "setup"), replicated); err != nil {
		t.Fatal(err)
	}
	t.Run("traces purge nothing", func(t *testing.T) { tracesPurgeNothing(t, c) })
	t.Run("one of many writers passes", func(t *testing.T) { oneOfManyWritersPasses(t, c) })
	t.Run("the bound of a subject", func(t *testing.T) { theBoundOfASubject(t, c) })
	t.Run("profiles under answers", func(t *testing.T) { profilesUnderAnswers(t, c) })
	t.Run("traced commands are removed", func(t *testing.T) { tracedCommandsAreRemoved(t, c) })
}

// Of many writers that name the same last event at the same time, replicas let one pass, and tell the others in words
// that the log takes for what they are.
func oneOfManyWritersPasses(t *testing.T, c *cluster.Cluster) {
	const writers, rounds = 8, 25
	conns := make([]*bus.Conn, writers)
	for i := range conns {
		conns[i] = system.Connect(t, c.URLOf(i%c.Size()), "writer")
	}
	var last uint64
	codes := map[jetstream.ErrorCode]int{}
	for range rounds {
		var mu sync.Mutex
		var passed []uint64
		var all sync.WaitGroup
		for _, conn := range conns {
			all.Go(func() {
				msg := &nats.Msg{Subject: conn.Subjects().Event("s1"), Data: []byte("{}")}
				ack, err := conn.Events().PublishMsg(t.Context(), msg, jetstream.WithExpectLastSequencePerSubject(last))
				mu.Lock()
				defer mu.Unlock()
				var refused *jetstream.APIError
				switch {
				case err == nil:
					passed = append(passed, ack.Sequence)
				case errors.As(err, &refused):
					codes[refused.ErrorCode]++
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(passed) != 1 {
			t.Fatalf("%d writers passed", len(passed))
		}
		last = passed[0]
	}
	t.Logf("refusals by code: %v", codes)
	if got := codes[jetstream.JSErrCodeStreamWrongLastSequence] +
		codes[jetstream.JSErrCodeStreamWrongLastSequenceConstant]; got != (writers-1)*rounds {
		t.Errorf("refusals by code: %v", codes)
	}
}
