package permissions_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/bus/retention/archive"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// The role deleter is enough to archive, delete and restore a session, and no other role but a runner may delete one.
func TestWhoMayDelete(t *testing.T) {
	t.Parallel()
	var names []permissions.Name
	for _, r := range permissions.Roles() {
		names = append(names, r.Name)
	}
	config, err := permissions.Users(schemas.Subjects{}, admins, users(names...))
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, config)
	connect := func(user string, o eventstore.Options) (*bus.Conn, *eventstore.Store) {
		t.Helper()
		c := bustest.Dial(t, bus.ConnOptions{URL: "nats://" + user + ":" + user + "@" + addr,
			Dial: dial.Settings{InboxPrefix: "_INBOX_" + user}})
		s, err := eventstore.New(c.Events(), o)
		if err != nil {
			t.Fatal(err)
		}
		return c, s
	}
	admin, store := connect("admin", eventstore.Options{})
	bustest.Setup(t, admin, streams.Options{})
	log, err := store.Open(bustest.Deadline(t), "s1")
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= 2; seq++ {
		e := schemas.Event{Session: "s1", Seq: seq, Time: time.Now(), Source: "/t",
			Data: &schemas.ErrorEvent{Code: "x", Message: strings.Repeat("x", int(seq)*200<<10)}}
		if err := log.Append(bustest.Deadline(t), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Flush(bustest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	if err := log.SaveSnapshot(bustest.Deadline(t), 1, 2, []byte("state")); err != nil {
		t.Fatal(err)
	}
	for subject, data := range map[string]string{"agent.tool.bash.s1.c2": "{}", "agent.dead.AGENT_CMD.s1": "{}",
		"$KV.agent_sessions.v1.s1": `{"stream":2}`} {
		if _, err := admin.JetStream().Publish(bustest.Deadline(t), subject, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	var others sync.WaitGroup // each waits for an answer that a user without permission does not get
	for _, name := range names {
		if name == permissions.Deleter || name == permissions.Runner || name == permissions.KeylessRunner {
			continue
		}
		c, own := connect(string(name),
			eventstore.Options{OutcomeTimeout: 200 * time.Millisecond, AppendTimeout: 100 * time.Millisecond})
		others.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			d := retention.NewDeleter(c, retention.Options{Store: own, AbortWait: time.Millisecond})
			if _, err := d.Delete(ctx, retention.Request{Session: "s1", Force: true}); err == nil {
				t.Errorf("%s may delete", name)
			}
		})
	}
	others.Wait()
	var file bytes.Buffer
	c, own := connect(string(permissions.Deleter), eventstore.Options{})
	if _, err := archive.Write(bustest.Deadline(t), own, "s1", &file); err != nil {
		t.Error(err)
	}
	// Over the entry of the payload lies an answer of the server.
	blobs, err := admin.JetStream().Stream(bustest.Deadline(t), "OBJ_agent_blobs")
	if err != nil {
		t.Fatal(err)
	}
	info, err := blobs.Info(bustest.Deadline(t), jetstream.WithSubjectFilter("$O.agent_blobs.M.*"))
	if err != nil {
		t.Fatal(err)
	}
	for entry := range info.State.Subjects {
		if err := admin.NATS().PublishRequest("$JS.API.STREAM.INFO.AGENT_EVT", entry, nil); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Eventually(t, "the server answers", func() bool {
		return bustest.Messages(t, admin, "OBJ_agent_blobs") > info.State.Msgs
	})
	d := retention.NewDeleter(c, retention.Options{Store: own, AbortWait: time.Millisecond})
	done, err := d.Delete(bustest.Deadline(t), retention.Request{Session: "s1", Force: true})
	if err != nil || done.Events != 2 || bustest.Messages(t, admin, "OBJ_agent_blobs") != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := archive.Restore(bustest.Deadline(t), c, own, bytes.NewReader(file.Bytes())); err != nil {
		t.Error(err)
	}
	r, err := store.Verify(bustest.Deadline(t), "s1", eventstore.VerifyOptions{})
	if err != nil || !r.OK() || r.Events != 2 || r.Blobs != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}
