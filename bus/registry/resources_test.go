package registry_test

import (
	"encoding/json"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/schemas"
)

// If several workers announce resources, those that changed last count. An announcement at another worker's key and an
// invalid one are ignored.
func TestResourcesOfAWorkspace(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	put := func(key string, value any) {
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		kv, err := c.JetStream().KeyValue(bustest.Deadline(t), schemas.BucketResources)
		if err == nil {
			_, err = kv.Put(bustest.Deadline(t), key, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	of := func(workspace, worker, since string) schemas.Resources {
		return schemas.Resources{Workspace: workspace, Worker: worker, Since: since, Directory: "/" + worker}
	}
	put("w1", of("", "w1", "2026-01-01T00:00:01Z"))
	put("web.w2", of("web", "w2", "2026-01-01T00:00:01Z"))
	put("web.w4", of("web", "w4", "2026-01-01T00:00:02Z"))
	put("web.w3", of("web", "w3", "2026-01-01T00:00:02Z"))
	put("web.forged", of("", "w9", "2027-01-01T00:00:00Z"))
	put("web.broken", "nothing")
	r := registry.NewResources(c, nil)
	t.Cleanup(r.Close)
	for workspace, want := range map[string]string{"": "w1", "web": "w3", "other": ""} {
		got, err := r.Resources(bustest.Deadline(t), workspace)
		if err != nil || got.Worker != want {
			t.Errorf("workspace %q: resources of %q, %v, want %q", workspace, got.Worker, err, want)
		}
	}
	put("web.w2", of("web", "w2", "2026-01-01T00:00:03Z"))
	bustest.Eventually(t, "the change is known", func() bool {
		got, err := r.Resources(bustest.Deadline(t), "web")
		return err == nil && got.Worker == "w2"
	})
}
