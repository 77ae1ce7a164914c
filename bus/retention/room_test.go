package retention_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/schemas"
)

// A log that is full has no room for the fence of a deletion, which is what makes room. The limit is what it was then,
// even if writers have taken the room meanwhile; nothing of the log is lost.
func TestAFullLogIsFreed(t *testing.T) {
	t.Parallel()
	for name, rounds := range map[string]int{"idle": 0, "flooded": 200} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.fill("s1")
			w.fill("s2")
			limit := w.fullLog(nil)
			flood := func() (n int) {
				for range rounds {
					_, err := w.conn.Events().Publish(t.Context(), w.conn.Subjects().Event("s3"), []byte(strings.Repeat("x", 1000)))
					if natsio.NoRoom(err) {
						break
					}
					w.must(err)
					n++
				}
				return n
			}
			_, err := w.conn.JetStream().Publish(bustest.Deadline(t), w.conn.Subjects().Event("s3"), []byte("x"))
			if !natsio.NoRoom(err) {
				t.Fatalf("the log is not full: %v", err)
			}
			taken := 0
			_, err = w.deleter(retention.Options{AfterStep: func(string) error { taken += flood(); return nil }}).
				Delete(bustest.Deadline(t), retention.Request{Session: "s1"})
			w.must(err)
			stream := w.events()
			info := stream.CachedInfo()
			if info.Config.MaxBytes != limit || rounds == 0 && info.State.Bytes >= uint64(limit) {
				t.Errorf("the limit is %d, and was %d; %d bytes", info.Config.MaxBytes, limit, info.State.Bytes)
			}
			if got := w.places("s1"); len(got) != 0 {
				t.Errorf("left: %q", got)
			}
			all, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(w.conn.Subjects().Event("s3")))
			w.must(err)
			if n := all.State.Subjects[w.conn.Subjects().Event("s3")]; n != uint64(taken) || rounds > 0 && n == 0 {
				t.Errorf("%d of %d messages are there", n, taken)
			}
		})
	}
}

// A limit that somebody has left raised is not taken for the log's own, and is set back; one that an operator has set
// since stays.
func TestARaisedLimitIsSetBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		note string
		want int64 // above what the log was limited to
	}{
		"left raised":       {"%d %d", -1000},
		"set since":         {"%d 1%d", 0},
		"never raised":      {"", 0},
		"something else is": {"x", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.fill("s1")
			w.fill("s2")
			limit := w.fullLog(func(limit int64) string {
				if !strings.Contains(c.note, "%") {
					return c.note
				}
				return fmt.Sprintf(c.note, limit-1000, limit)
			})
			_, err := w.deleter(retention.Options{}).Delete(bustest.Deadline(t), retention.Request{Session: "s1"})
			w.must(err)
			if got := w.events().CachedInfo().Config.MaxBytes; got != limit+c.want {
				t.Errorf("after a deletion the limit is %d, want %d", got, limit+c.want)
			}
		})
	}
	t.Run("without a deletion", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fill("s1")
		limit := w.fullLog(func(limit int64) string { return fmt.Sprint(limit-100, limit) })
		k := w.keeper(retention.KeeperOptions{ID: "r1", Deleter: w.deleter(retention.Options{}), Index: w.index()})
		_, err := k.Round(bustest.Deadline(t))
		w.must(err)
		if got := w.events().CachedInfo().Config.MaxBytes; got != limit-100 {
			t.Errorf("after a round the limit is %d, want %d", got, limit-100)
		}
	})
}

func (w *world) events() jetstream.Stream {
	w.t.Helper()
	stream, err := w.conn.JetStream().Stream(bustest.Deadline(w.t), schemas.StreamEvents)
	w.must(err)
	return stream
}

// fullLog limits the log to what it has, and notes in its metadata what note returns for that limit.
func (w *world) fullLog(note func(limit int64) string) (limit int64) {
	w.t.Helper()
	info := w.events().CachedInfo()
	config := info.Config
	config.MaxBytes = int64(info.State.Bytes)
	if note != nil {
		config.Metadata["loopbus-max-bytes"] = note(config.MaxBytes)
	}
	_, err := w.conn.JetStream().UpdateStream(bustest.Deadline(w.t), config)
	w.must(err)
	return config.MaxBytes
}
