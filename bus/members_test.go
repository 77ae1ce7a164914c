package bus_test

import (
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// A replica of the bucket may keep an entry that should have expired. Its partitions do not stay without a reader.
func TestRunnerWhoseEntryStaysIsNotLiveForEver(t *testing.T) {
	s, c := newSmallBus(t)
	if _, err := c.JetStream().Publish(deadline(t), "$KV."+schemas.BucketRunners+".gone", []byte(`{"id":"gone"}`)); err != nil {
		t.Fatal(err) // without a time to live
	}
	l := newLedger()
	in, _ := runInbox(t, connect(t, s), fastOptions("a"), l.handler("a"))
	eventually(t, "all partitions are read", func() bool { return len(in.Partitions()) == testPartitions })
}
