package permissions_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// The role objects alone is enough to read a payload, as replay does for an event of more than 256 KiB.
func TestWhoReadsObjects(t *testing.T) {
	t.Parallel()
	config, err := permissions.Users(schemas.Subjects{}, admins, users(permissions.Objects))
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, config)
	store := func(user string) *eventstore.Store {
		t.Helper()
		c := bustest.Dial(t, bus.ConnOptions{URL: "nats://" + user + ":" + user + "@" + addr,
			Dial: dial.Settings{InboxPrefix: "_INBOX_" + user}})
		if user == "admin" {
			bustest.Setup(t, c, streams.Options{})
		}
		s, err := eventstore.New(c.Events(), eventstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	data := make([]byte, 600<<10) // several chunks
	ref := fmt.Sprintf("nats://%s/s1/w1/%x", schemas.BucketBlobs, sha256.Sum256(data))
	if err := store("admin").PutPayload(bustest.Deadline(t), ref, data); err != nil {
		t.Fatal(err)
	}
	got, err := store("objects").Payload(bustest.Deadline(t), ref)
	if err != nil || len(got) != len(data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
