package registry_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/schemas"
)

var errNone = errors.New("there is none")

func profileBucket(t *testing.T, c *bus.Conn) jetstream.KeyValue {
	t.Helper()
	kv, err := c.JetStream().KeyValue(bustest.Deadline(t), schemas.BucketProfiles)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

func TestProfilesFollowTheBucket(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	kv := profileBucket(t, c)
	set := func(name, value string) {
		t.Helper()
		if _, err := kv.Put(bustest.Deadline(t), name, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	set("reviewer", `{"systemPrompt":"You review.","tools":["read"]}`)
	profiles := registry.NewProfiles(c, errNone, nil)
	t.Cleanup(profiles.Close)

	p, err := profiles.Profile(bustest.Deadline(t), "reviewer")
	if err != nil || p.SystemPrompt == nil || *p.SystemPrompt != "You review." || len(p.Tools) != 1 {
		t.Fatalf("profile %+v, %v", p, err)
	}
	_, err = profiles.Profile(bustest.Deadline(t), "writer")
	if !errors.Is(err, errNone) || !strings.Contains(err.Error(), "agent_profiles has reviewer") {
		t.Errorf("unknown profile: %v", err)
	}

	set("reviewer", `{"tools":"read"}`)
	bustest.Eventually(t, "the broken profile is refused", func() bool {
		_, err = profiles.Profile(bustest.Deadline(t), "reviewer")
		return err != nil
	})
	if errors.Is(err, errNone) || !strings.Contains(err.Error(), "/tools: expected array") {
		t.Errorf("broken profile: %v", err)
	}

	if err := kv.Delete(bustest.Deadline(t), "reviewer"); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the profile is unknown", func() bool {
		_, err := profiles.Profile(bustest.Deadline(t), "reviewer")
		return errors.Is(err, errNone)
	})
}

// The bucket may be emptied while it is loaded: then fewer entries arrive than there were, or none. It happens
// ten times, since which of them depends on the moment.
func TestBucketThatIsEmptiedIsLoaded(t *testing.T) {
	t.Parallel()
	for n := range 10 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			c := bustest.New(t)
			kv := profileBucket(t, c)
			stream, err := c.JetStream().Stream(bustest.Deadline(t), "KV_"+schemas.BucketProfiles)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if _, err := kv.Put(bustest.Deadline(t), fmt.Sprintf("p%d", i), []byte(`{}`)); err != nil {
					t.Fatal(err)
				}
			}
			purged := make(chan error, 1)
			go func() { purged <- stream.Purge(bustest.Deadline(t)) }()
			profiles := registry.NewProfiles(c, errNone, nil)
			if _, err := profiles.List(bustest.Deadline(t)); err != nil {
				t.Fatalf("the bucket was not loaded: %v", err)
			}
			profiles.Close()
			if err := <-purged; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A profile that was put before is in force, however late the bucket's messages are.
func TestAProfileIsCurrent(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	kv := profileBucket(t, c)
	profiles := newProfiles(t, c)
	for n := range 60 { // a key has 64 revisions at most
		want := fmt.Sprintf("version %d", n)
		if _, err := kv.PutString(bustest.Deadline(t), "coder", fmt.Sprintf(`{"systemPrompt":%q}`, want)); err != nil {
			t.Fatal(err)
		}
		p, err := profiles.Profile(bustest.Deadline(t), "coder")
		if err != nil || *p.SystemPrompt != want {
			t.Fatalf("%+v, %v; want %s", p, err, want)
		}
	}
}
