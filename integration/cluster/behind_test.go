//go:build unix

package cluster_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/integration/internal/cluster"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// A writer does not learn the end of the log from a replica that is behind: its first append would be refused.
func TestAWriterDoesNotBeginBehind(t *testing.T) {
	suite.LongForm(t)
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Severable: true})
	setup := system.Connect(t, c.URL(), "setup")
	if err := streams.Setup(t.Context(), setup, replicated); err != nil {
		t.Fatal(err)
	}
	leader := c.LeaderOf(setup, schemas.StreamEvents)
	behind := (leader + 1) % c.Size()
	store, stale := storeOn(t, c.URLOf(leader)), storeOn(t, c.URLOf(behind))
	log := open(t, store, "s1")
	write(t, log, 1, 3)
	// Another replica answers for one that is not current.
	system.Eventually(t, "the replicas are current", func() bool { return current(t, setup, schemas.StreamEvents) })
	system.Eventually(t, "the replica has the log", func() bool { return len(system.LogOf(t, stale, "s1")) == 3 })

	c.Isolate(behind)
	write(t, log, 4, 5)
	if n := len(system.LogOf(t, stale, "s1")); n != 3 {
		t.Fatalf("the replica that is cut off has %d events", n)
	}
	opened := make(chan *eventstore.Log, 1)
	system.Serve(t, func(context.Context) error {
		log, err := stale.Open(t.Context(), "s1")
		opened <- log
		return err
	})
	c.Heal(behind)
	select {
	case log = <-opened:
	case <-time.After(system.Deadline):
		t.Fatal("the log was not opened")
	}
	if log != nil {
		defer log.Close()
		write(t, log, 6, 6)
		system.Verify(t, stale, "s1")
	}
}

// A replica that is behind does not have an object yet. Nobody takes the object for lost.
func TestAnObjectThatAReplicaDoesNotHaveIsNotLost(t *testing.T) {
	suite.LongForm(t)
	t.Parallel()
	const bucket = "OBJ_" + schemas.BucketBlobs
	c := cluster.Start(t, cluster.Options{Severable: true})
	setup := system.Connect(t, c.URL(), "setup")
	if err := streams.Setup(t.Context(), setup, replicated); err != nil {
		t.Fatal(err)
	}
	leader := c.LeaderOf(setup, bucket)
	behind := (leader + 1) % c.Size()
	store, stale := storeOn(t, c.URLOf(leader)), storeOn(t, c.URLOf(behind))
	data := []byte("a payload")
	ref := func(session string) string {
		return fmt.Sprintf("nats://%s/%s/w1/%x", schemas.BucketBlobs, session, sha256.Sum256(data))
	}
	put := func(ref string) {
		if err := store.PutPayload(t.Context(), ref, data); err != nil {
			t.Fatal(err)
		}
	}
	put(ref("s1"))
	system.Eventually(t, "the replicas are current", func() bool { return current(t, setup, bucket) })
	if got, err := stale.Payload(t.Context(), ref("s1")); err != nil || string(got) != string(data) {
		t.Fatalf("%q, %v", got, err)
	}

	c.Isolate(behind)
	put(ref("s2"))
	nc := system.Connect(t, c.URLOf(behind), "watch").NATS()
	// It begins to do so ten seconds after its start.
	system.Eventually(t, "the replica that is cut off answers for a leader", func() bool {
		m, err := nc.Request("$JS.API.STREAM.INFO."+bucket, nil, time.Second)
		return err == nil && strings.Contains(string(m.Data), `"state"`)
	})
	name := base64.URLEncoding.EncodeToString([]byte(ref("s2")[len("nats://"+schemas.BucketBlobs+"/"):]))
	get := "$JS.API.DIRECT.GET." + bucket + ".$O." + schemas.BucketBlobs + ".M." + name
	system.Eventually(t, "the replica that is cut off answers by itself", func() bool {
		m, err := nc.Request(get, nil, time.Second)
		return err == nil && m.Header.Get("Status") == "404"
	})
	asked, err := nc.SubscribeSync(get)
	if err != nil {
		t.Fatal(err)
	}
	type read struct {
		data []byte
		size int64
	}
	all := make(chan read, 1)
	system.Serve(t, func(context.Context) error {
		size, err := stale.PayloadSize(t.Context(), ref("s2"))
		if err != nil {
			return err
		}
		data, err := stale.Payload(t.Context(), ref("s2"))
		all <- read{data, size}
		return err
	})
	if _, err := asked.NextMsg(system.Deadline); err != nil {
		t.Fatal(err)
	}
	c.Heal(behind)
	select {
	case got := <-all:
		if string(got.data) != string(data) || got.size != int64(len(data)) {
			t.Errorf("%d bytes, %q; want %d, %q", got.size, got.data, len(data), data)
		}
	case <-time.After(system.Deadline):
		t.Fatal("the object was not read")
	}
}

// current reports whether all replicas of a stream have all messages of its leader.
func current(t *testing.T, conn *bus.Conn, stream string) bool {
	t.Helper()
	s, err := conn.JetStream().Stream(t.Context(), stream)
	if err != nil || s.CachedInfo().Cluster == nil {
		return false // during an election
	}
	for _, replica := range s.CachedInfo().Cluster.Replicas {
		if !replica.Current || replica.Lag > 0 {
			return false
		}
	}
	return true
}

func open(t *testing.T, store *eventstore.Store, session string) *eventstore.Log {
	t.Helper()
	log, err := store.Open(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	return log
}

// write appends events from one sequence to another.
func write(t testing.TB, log *eventstore.Log, from, to uint64) {
	t.Helper()
	for seq := from; seq <= to; seq++ {
		err := log.Append(t.Context(), schemas.Event{
			Session: "s1", Seq: seq, Time: time.Now(), Source: "/loopbus/runner/test",
			Data: &schemas.ErrorEvent{Code: "test", Message: "an event", Recoverable: true},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}
