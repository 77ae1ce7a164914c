package registry_test

import (
	"fmt"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
)

// A bucket is loaded that has more entries than a follower can process as they come.
func TestALargeBucketIsLoaded(t *testing.T) {
	t.Parallel()
	const many = 30_000
	c := bustest.New(t)
	for i := range many {
		if err := c.NATS().Publish(fmt.Sprintf("$KV.agent_profiles.p%05d", i), []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Eventually(t, "all are stored", func() bool { return bustest.Messages(t, c, "KV_agent_profiles") == many })
	all, err := newProfiles(t, c).List(bustest.Deadline(t))
	if err != nil || len(all) != many {
		t.Errorf("%d profiles, %v", len(all), err)
	}
}
