package streams_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// A bucket of profiles of before, which kept one value of each, is made one that gives none up for another, with what
// is in it; and what an operator has given it stays.
func TestWhatWasKeptBeforeIsKept(t *testing.T) {
	t.Parallel()
	for _, bucket := range []string{schemas.BucketProfiles, schemas.BucketDeletions} {
		t.Run(bucket, func(t *testing.T) {
			t.Parallel()
			keptBefore(t, bucket)
		})
	}
}

func keptBefore(t *testing.T, bucket string) {
	t.Helper()
	c := bustest.Connect(t, bustest.Server(t))
	kv, err := c.JetStream().CreateKeyValue(bustest.Deadline(t), jetstream.KeyValueConfig{
		Bucket: bucket, Description: "ours", MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	put := func(value string) error {
		t.Helper()
		_, err := kv.PutString(bustest.Deadline(t), "coder", value)
		return err
	}
	if err := put("0"); err != nil {
		t.Fatal(err)
	}
	bustest.Setup(t, c, streams.Options{})
	cfg := configOf(t, c, "KV_"+bucket)
	if bucket == schemas.BucketProfiles && cfg.MaxMsgs != 1<<16 {
		t.Errorf("the bucket accepts %d messages", cfg.MaxMsgs)
	}
	if cfg.Description != "ours" || cfg.MaxBytes != 64<<20 || cfg.MaxMsgsPerSubject != 64 {
		t.Errorf("config %+v", cfg)
	}
	for range 63 {
		if err := put("x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := put("one too many"); err == nil {
		t.Error("a full key takes another value")
	}
	all, err := kv.History(bustest.Deadline(t), "coder")
	if err != nil || len(all) != 64 || string(all[0].Value()) != "0" {
		t.Errorf("%d values, the first %q, %v", len(all), all[0].Value(), err)
	}
	cfg.MaxMsgsPerSubject = 100
	if _, err := c.JetStream().UpdateStream(bustest.Deadline(t), cfg); err != nil {
		t.Fatal(err)
	}
	bustest.Setup(t, c, streams.Options{})
	if n := configOf(t, c, "KV_"+bucket).MaxMsgsPerSubject; n != 100 {
		t.Errorf("an operator's number became %d", n)
	}
}
