package registry_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// A client that may write one announcement must not remove all others with a roll-up. The permission for its subject
// does not prevent that, because a header of the message applies the roll-up to the whole stream.
func TestRollUpIsRefused(t *testing.T) {
	t.Parallel()
	for _, bucket := range []string{schemas.BucketTools, schemas.BucketResources} {
		t.Run(bucket, func(t *testing.T) {
			t.Parallel()
			c := bustest.New(t)
			subject := func(key string) string { return "$KV." + bucket + "." + key }
			for _, key := range []string{"read.w1", "bash.w2"} {
				if _, err := c.JetStream().Publish(bustest.Deadline(t), subject(key), []byte("{}"),
					jetstream.WithMsgTTL(time.Minute)); err != nil {
					t.Fatal(err)
				}
			}
			for _, which := range []string{jetstream.MsgRollupAll, jetstream.MsgRollupSubject} {
				msg := nats.NewMsg(subject("ls.evil"))
				msg.Header.Set(jetstream.MsgRollup, which)
				if ack, err := c.JetStream().PublishMsg(bustest.Deadline(t), msg); err == nil {
					t.Errorf("a roll-up of %s is stored as %d", which, ack.Sequence)
				}
			}
			kv, err := c.JetStream().KeyValue(bustest.Deadline(t), bucket)
			if err != nil {
				t.Fatal(err)
			}
			keys, err := kv.Keys(bustest.Deadline(t))
			slices.Sort(keys)
			if d := cmp.Diff([]string{"bash.w2", "read.w1"}, keys); d != "" || err != nil {
				t.Errorf("%v, announcements (-want +got):\n%s", err, d)
			}
		})
	}
}

// An announcement expires for its readers although the server stores no marker, also one that is older than the reader.
// A renewed announcement stays.
func TestAnnouncementsExpireWithoutMarker(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	publish := func(key, body string, ttl time.Duration) {
		t.Helper()
		if _, err := c.JetStream().Publish(bustest.Deadline(t), "$KV."+schemas.BucketTools+"."+key, []byte(body),
			jetstream.WithMsgTTL(ttl)); err != nil {
			t.Fatal(err)
		}
	}
	publish("read.w1", `{"name":"read","worker":"w1"}`, 3*time.Second) // long enough to be received on a busy machine
	publish("ls.w1", `{"name":"ls","worker":"w1"}`, 3*time.Second)
	box := newToolbox(t, c)
	if err := box.Wait(bustest.Deadline(t), "read", "ls"); err != nil {
		t.Fatal(err)
	}
	publish("ls.w1", `{"name":"ls","worker":"w1"}`, time.Hour)
	publish("bash.w1", `{"name":"bash","worker":"w1"}`, time.Hour)
	if err := box.Wait(bustest.Deadline(t), "bash"); err != nil {
		t.Fatal(err)
	}
	publish("bash.w1", `{"name":"bash","worker":"w1"}`, time.Second)
	bustest.Eventually(t, "announcements that are not renewed expire", func() bool {
		return cmp.Equal(described(t, box), []string{"ls:"})
	})
	stream, err := c.JetStream().Stream(bustest.Deadline(t), "KV_"+schemas.BucketTools)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the stream has no markers of them", func() bool {
		info, err := stream.Info(bustest.Deadline(t))
		return err == nil && info.State.Msgs == 1
	})
}
