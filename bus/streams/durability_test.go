package streams_test

import (
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/streams"
)

// How often somebody else's server syncs cannot be seen, which is said.
func TestDurabilityOfRemoteServer(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	got, err := streams.DurabilityOf(bustest.Deadline(t), c)
	if err != nil || !strings.Contains(got.Text, "one replica") || !strings.Contains(got.Text, "cannot be seen") ||
		!got.PageCache {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := streams.DurabilityOf(bustest.Deadline(t), bustest.Connect(t, bustest.Server(t))); err == nil {
		t.Error("streams that are not there have a durability")
	}
}
