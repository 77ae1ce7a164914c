package retention_test

import (
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/schemas"
)

// A log that is full has no room for the fence of a deletion, which is what makes room. The limit is what it was then.
func TestAFullLogIsFreed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill("s1")
	w.fill("s2")
	limit := w.fullLog()
	_, err := w.conn.JetStream().Publish(bustest.Deadline(t), w.conn.Subjects().Event("s3"), []byte("x"))
	if !natsio.NoRoom(err) {
		t.Fatalf("the log is not full: %v", err)
	}
	if _, err := w.deleter(retention.Options{}).Delete(bustest.Deadline(t), retention.Request{Session: "s1"}); err != nil {
		t.Fatal(err)
	}
	stream, err := w.conn.JetStream().Stream(bustest.Deadline(t), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	info := stream.CachedInfo()
	if info.Config.MaxBytes != limit || info.State.Bytes >= uint64(limit) {
		t.Errorf("the limit is %d, and was %d; %d bytes", info.Config.MaxBytes, limit, info.State.Bytes)
	}
	if got := w.places("s1"); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

// fullLog limits the log to what it has.
func (w *world) fullLog() (limit int64) {
	w.t.Helper()
	stream, err := w.conn.JetStream().Stream(bustest.Deadline(w.t), schemas.StreamEvents)
	w.must(err)
	config := stream.CachedInfo().Config
	config.MaxBytes = int64(stream.CachedInfo().State.Bytes)
	_, err = w.conn.JetStream().UpdateStream(bustest.Deadline(w.t), config)
	w.must(err)
	return config.MaxBytes
}
