package bus_test

import (
	"testing"

	"github.com/loopbus/loopbus/bus"
)

func TestSetupIsIdempotent(t *testing.T) {
	c := newBus(t)
	if err := bus.Setup(deadline(t), c, bus.StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	n, err := bus.Partitions(deadline(t), c)
	if err != nil || n != bus.DefaultPartitions {
		t.Fatalf("partitions = %d, %v", n, err)
	}
}
