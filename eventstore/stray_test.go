package eventstore_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// Foreign messages before a log may be removed when it begins. If its first message was stored before, the log is
// whole; if not, its writer is refused and opens the log again.
func TestForeignMessagesBeforeALogMayBeRemoved(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"the log", "the purge"} {
		t.Run(first+" is first", func(t *testing.T) {
			t.Parallel()
			s, js := newJetStream(t, eventstore.Options{})
			for range 3 {
				reply(t, js, notFound, "agent.evt.s1")
			}
			newest := tailOf(t, s, "s1")
			l := open(t, s, "s1")
			if first == "the log" {
				mustAppend(t, l, event("s1", 1, "a"))
			}
			stream, err := js.Stream(t.Context(), schemas.StreamEvents)
			if err == nil {
				err = stream.Purge(t.Context(), jetstream.WithPurgeSubject("agent.evt.s1"),
					jetstream.WithPurgeSequence(newest+1))
			}
			if err != nil {
				t.Fatal(err)
			}
			next := uint64(2)
			if first == "the purge" {
				if err := appendAll(ctxOf(t), l, event("s1", 1, "a")); !errors.Is(err, schemas.ErrConflict) {
					t.Errorf("append behind what is gone: %v", err)
				}
				next, l = 1, open(t, s, "s1")
			}
			mustAppend(t, l, event("s1", next, "b"))
			mustVerify(t, s, "s1", next)
			if got := seqs(t, open(t, s, "s1").Read(t.Context(), 1)); len(got) != int(next) {
				t.Errorf("read %v", got)
			}
		})
	}
}
