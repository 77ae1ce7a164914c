package registry

import (
	"testing"
	"time"
)

// A renewal that has arrived in time counts, also if it waits behind messages that take long to process.
func TestEntriesExpireAfterWhatHasArrived(t *testing.T) {
	t.Parallel()
	x := newExpiry()
	defer x.stop()
	worker := entry{key: "bash.w1", revision: 1}
	x.set(worker, time.Nanosecond)
	<-x.due()
	if x.passed(3) {
		t.Error("entries expire before the messages that have arrived")
	}
	if x.passed(5) || x.processed() || x.processed() {
		t.Error("entries expire after a part of the messages")
	}
	worker.revision = 2
	x.set(worker, time.Hour) // the renewal, and last of the three
	if !x.processed() {
		t.Error("entries do not expire after the messages")
	}
	if gone := x.expired(time.Now()); len(gone) != 0 {
		t.Errorf("a renewed entry expires: %v", gone)
	}
	if !x.passed(0) {
		t.Error("entries do not expire if no message waits")
	}
	x.passed(2)
	if x.reset(); x.processed() || !x.passed(0) {
		t.Error("a new watch waits for messages of the one before")
	}
}
