package registry_test

import (
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/schemas"
)

// A client that lists tools and profiles may create consumers, and can use up the limit of the streams. A runner that
// starts then nevertheless receives tools and profiles, and their changes.
func TestBucketsAreFollowedWithoutAConsumer(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	def := schemas.ToolDefinition{Name: "first", Description: "d", Parameters: []byte(`{"type":"object"}`)}
	bustest.Announce(t, c, "w1", def)
	kv := profileBucket(t, c)
	if _, err := kv.Put(bustest.Deadline(t), "coder", []byte(strictProfile)); err != nil {
		t.Fatal(err)
	}
	for _, bucket := range []string{schemas.BucketTools, schemas.BucketProfiles} {
		bustest.TakeConsumers(t, c.NATS(), "KV_"+bucket, "$KV."+bucket+".>")
	}
	tools, profiles := registry.NewToolbox(c, nil), newProfiles(t, c)
	t.Cleanup(tools.Close)
	if err := tools.Wait(bustest.Deadline(t), "first"); err != nil {
		t.Fatal(err)
	}
	if list, err := profiles.List(bustest.Deadline(t)); err != nil || len(list) != 1 {
		t.Fatalf("profiles %v, %v", list, err)
	}
	def.Name = "second"
	bustest.Announce(t, c, "w1", def)
	if err := tools.Wait(bustest.Deadline(t), "second"); err != nil {
		t.Fatal(err)
	}
	if err := kv.Delete(bustest.Deadline(t), "coder"); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the deletion of the profile is known", func() bool {
		list, err := profiles.List(bustest.Deadline(t))
		return err == nil && len(list) == 0
	})
}
