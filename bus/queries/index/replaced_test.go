package index_test

import (
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// An operator has restored the stream of the logs from a backup that is older than the index: entries that are ahead of
// their logs are made anew, while an index follows them and when one opens.
func TestIndexAheadOfItsLogsIsRepaired(t *testing.T) {
	t.Parallel()
	for name, follows := range map[string]bool{"while it follows": true, "when it opens": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			ix := r.open(r.quick())
			r.session(nil, "s1").say(turn(1, "one")...)
			r.session(nil, "s1").say(append(turn(2, "two"), turn(3, "three")...)...)
			r.session(nil, "s1").say(&schemas.AgentStart{}) // it is running
			r.session(nil, "lost").say(turn(1, "lost")...)
			reaches(t, ix, "s1", 25)
			reaches(t, ix, "lost", 8)
			if !follows {
				ix.Close()
			}
			if err := r.conn.JetStream().DeleteStream(t.Context(), schemas.StreamEvents); err != nil {
				t.Fatal(err)
			}
			if err := streams.Setup(t.Context(), r.conn, streams.Options{}); err != nil {
				t.Fatal(err)
			}
			r.session(nil, "s1").say(turn(1, "one")...)
			if !follows {
				ix = r.open(r.quick())
			}
			var e *index.Entry
			bustest.Eventually(t, "the entry is that of the log", func() bool {
				e = ix.Get("s1")
				return e != nil && e.Summary.Seq == 8 && ix.Get("lost") == nil
			})
			if e.Run || e.Summary.Runs != 1 || e.Summary.Status != schemas.SessionIdle {
				t.Errorf("%+v", e.Summary)
			}
			s := r.session(ix, "s1")
			s.say(turn(2, "another")...)
			reaches(t, ix, "s1", 16)
		})
	}
}
