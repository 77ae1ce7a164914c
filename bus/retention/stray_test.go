package retention_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/schemas"
)

// subjects are the subjects of a stream that match a filter.
func (w *world) subjects(stream, filter string) []string {
	w.t.Helper()
	s, err := w.conn.JetStream().Stream(bustest.Deadline(w.t), stream)
	w.must(err)
	info, err := s.Info(bustest.Deadline(w.t), jetstream.WithSubjectFilter(filter))
	w.must(err)
	return slices.Collect(maps.Keys(info.State.Subjects))
}

// No answer of a server prevents a deletion, wherever it was directed among the session's data.
func TestAnswersOfAServerDoNotPreventADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acked := nats.Msg{Subject: w.conn.Subjects().LiveUpdate("other"), Data: []byte(`{}`)}
	notFound := nats.Msg{Subject: "$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.none"}
	const dueTimers = "agent.due.S.X"
	const odd = "* > é a*b a:b \xff \x7f v1 v9 c9 bash"
	for name, c := range map[string]struct {
		answer nats.Msg
		stream string
		at     string // with S for the session, and a token of odd in place of X
	}{
		"entries":               {acked, "KV_agent_sessions", "$KV.agent_sessions.X.S"},
		"entries, no payload":   {notFound, "KV_agent_sessions", "$KV.agent_sessions.X.S"},
		"snapshots":             {acked, "KV_agent_snapshots", "$KV.agent_snapshots.S.X"},
		"snapshots, no payload": {notFound, "KV_agent_snapshots", "$KV.agent_snapshots.S.X"},
		"calls":                 {acked, schemas.StreamTools, "agent.tool.bash.S.X"},
		"calls, no payload":     {notFound, schemas.StreamTools, "agent.tool.bash.S.X"},
		"calls of a queue":      {acked, schemas.StreamTools, "agent.tool.X.S.c9"},
		"timers":                {acked, schemas.StreamTimers, "agent.sched.S.X"},
		"due timers":            {acked, schemas.StreamTimers, dueTimers},
		"dead letters":          {acked, schemas.StreamDead, "agent.dead.X.S"},
		"objects":               {acked, "OBJ_agent_blobs", ""},
		"objects, no payload":   {notFound, "OBJ_agent_blobs", ""},
	} {
		session := "s-" + strings.ReplaceAll(strings.ReplaceAll(name, ",", ""), " ", "-")
		others := w.chunks()
		w.fill(session)
		filled := w.places(session)
		places := w.subjects("OBJ_agent_blobs", "$O.agent_blobs.M.>") // only this session's
		if c.at != "" {
			places = nil
			for token := range strings.FieldsSeq(odd) {
				places = append(places, strings.NewReplacer("S", session, "X", token).Replace(c.at))
			}
		}
		for _, at := range places {
			before, answer := w.last(c.stream), c.answer
			answer.Reply = at
			w.must(w.conn.NATS().PublishMsg(&answer))
			bustest.Eventually(t, "the server answers at "+at, func() bool { return w.last(c.stream) > before })
		}
		d := w.deleter(retention.Options{AbortWait: time.Nanosecond})
		_, err := d.Delete(bustest.Deadline(t), retention.Request{Session: session,
			Force: c.at == dueTimers}) // which wait in the inbox until a runner removes them
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, place := range w.places(session) {
			if slices.Contains(filled, place) || strings.Contains(place, "KV_agent_deletions") {
				t.Errorf("%s: left %q", name, place)
			}
		}
		if n := w.chunks(); n != others {
			t.Errorf("%s: %d chunks are left", name, n-others)
		}
	}
}
