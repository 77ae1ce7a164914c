//go:build unix

package anylanguage_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// A replica that is behind does not have an event's payload yet. The client waits for it.
func TestJavaScriptAwaitsAPayload(t *testing.T) {
	t.Parallel()
	needsNode(t)
	c, current := bustest.Behind(t, "OBJ_"+schemas.BucketBlobs)
	data, err := schemas.AppendData(nil, &schemas.ErrorEvent{Code: "big", Message: "a payload"})
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("%x", sha256.Sum256(data))
	objects, err := c.Events().ObjectStore(bustest.Deadline(t), schemas.BucketBlobs)
	if err == nil {
		_, err = objects.PutBytes(bustest.Deadline(t), name, data)
	}
	var commit schemas.Commit
	if err == nil {
		e := schemas.Event{Session: "s1", Seq: 1, Source: "/x", Data: &schemas.ErrorEvent{}}
		err = commit.Add(&e, nil, "nats://agent_blobs/"+name)
	}
	if err == nil {
		_, err = c.JetStream().PublishMsg(bustest.Deadline(t), &nats.Msg{Subject: c.Subjects().Event("s1"),
			Header: commit.Header(""), Data: commit.Payload()})
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.NATS().Subscribe("$JS.API.STREAM.INFO.OBJ_"+schemas.BucketBlobs, func(*nats.Msg) { current() })
	if err == nil {
		err = c.NATS().Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	events := 0
	startScript(t, c.NATS().ConnectedUrl(), "history", "s1").lines(func(l line) {
		if l.Damaged != "" || l.Type != schemas.EventError {
			t.Errorf("got %+v", l)
		}
		events++
	})
	if events != 1 {
		t.Errorf("got %d events", events)
	}
}

// A cluster that has just started may not know its streams yet. The client waits for them.
func TestJavaScriptAwaitsAStream(t *testing.T) {
	t.Parallel()
	needsNode(t)
	url := bustest.NATS(t, &server.Options{JetStream: true, Cluster: server.ClusterOpts{Name: "three"}}).ClientURL()
	c := bustest.Dial(t, bus.ConnOptions{URL: url})
	requests, err := c.NATS().SubscribeSync("$JS.API.CONSUMER.CREATE.AGENT_EVT.>")
	if err == nil {
		err = requests.AutoUnsubscribe(1)
	}
	if err == nil {
		err = c.NATS().Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	s := startScript(t, url, "history", "s1")
	if _, err := requests.NextMsgWithContext(bustest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	bustest.Setup(t, c, streams.Options{})
	s.lines(func(l line) { t.Errorf("got %+v", l) }) // there is no event, and no error
}
