package bus_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

var errNone = errors.New("there is none")

func profileBucket(t *testing.T, c *bus.Conn) jetstream.KeyValue {
	t.Helper()
	kv, err := c.JetStream().KeyValue(deadline(t), schemas.BucketProfiles)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

func TestProfilesFollowTheBucket(t *testing.T) {
	c := newBus(t)
	kv := profileBucket(t, c)
	set := func(name, value string) {
		t.Helper()
		if _, err := kv.Put(deadline(t), name, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	set("reviewer", `{"systemPrompt":"You review.","tools":["read"]}`)
	profiles := bus.NewProfiles(c, errNone, nil)
	t.Cleanup(profiles.Close)

	p, err := profiles.Profile(deadline(t), "reviewer")
	if err != nil || p.SystemPrompt == nil || *p.SystemPrompt != "You review." || len(p.Tools) != 1 {
		t.Fatalf("profile %+v, %v", p, err)
	}
	_, err = profiles.Profile(deadline(t), "writer")
	if !errors.Is(err, errNone) || !strings.Contains(err.Error(), "agent_profiles has reviewer") {
		t.Errorf("a profile that there is not: %v", err)
	}

	set("reviewer", `{"tools":"read"}`)
	eventually(t, "the broken profile is refused", func() bool {
		_, err = profiles.Profile(deadline(t), "reviewer")
		return err != nil
	})
	if errors.Is(err, errNone) || !strings.Contains(err.Error(), "/tools: expected array") {
		t.Errorf("a profile that cannot be read: %v", err)
	}

	if err := kv.Delete(deadline(t), "reviewer"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the profile is gone", func() bool {
		_, err := profiles.Profile(deadline(t), "reviewer")
		return errors.Is(err, errNone)
	})
}
