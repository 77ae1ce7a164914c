package queries_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/schemas"
)

// many makes n sessions: the log of each, and what the index has of it, as it would be after a year.
func (r *rig) many(n int) {
	r.t.Helper()
	js := r.conn.JetStream()
	publish := func(subject string, header nats.Header, data []byte) {
		m := &nats.Msg{Subject: subject, Header: header, Data: data}
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
			r.t.Fatal(err)
		}
	}
	key := fmt.Sprintf("$KV.%s.v%d", schemas.BucketSessions, index.Version)
	for i := range n {
		id, at := fmt.Sprintf("session-%06d", i), r.clock.Add(time.Duration(i)*time.Second)
		e := index.Entry{Stream: uint64(i + 1), Messages: 24, Summary: schemas.SessionSummary{
			Session: id, Seq: 1, Status: schemas.SessionIdle, Created: at, LastActivity: at,
			Title: fmt.Sprintf("Please look at ticket %d and say what has to be done about it, with the reasons", i),
			LastMessage: fmt.Sprintf("I have looked at ticket %d. Three things have to be done: the index has to be made "+
				"again, the runner has to be started with more memory, and somebody has to look at the disk of it.", i),
			LastRole: schemas.RoleAssistant, Model: &schemas.ModelRef{API: "api", Provider: "provider", ID: "model-1"},
			Profile: fmt.Sprint("profile-", i%10), Runs: 3, Turns: 12, Usage: schemas.Usage{Input: 1234, Output: 567,
				TotalTokens: 1801, Cost: schemas.Cost{Total: 0.12}}, Reason: schemas.EndNoToolCalls}}
		header, payload, err := schemas.EncodeCommit(schemas.Event{Session: id, Seq: 1, Time: at, Source: "/x",
			Data: &schemas.SessionBranched{Session: "root", Seq: 1, Messages: schemas.Messages{}}})
		if err != nil {
			r.t.Fatal(err)
		}
		publish("agent.evt."+id, header, payload)
		data, err := schemas.Marshal(e)
		if err != nil {
			r.t.Fatal(err)
		}
		publish(key+"."+id, nil, data)
	}
	publish(key, nil, fmt.Append(nil, n))
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(5 * time.Minute):
		r.t.Fatal("the index is not stored")
	}
}

// BenchmarkSessions asks for the first page of 100,000 sessions, over NATS, while some of them change.
func BenchmarkSessions(b *testing.B) {
	const n = 100_000
	r := newRig(b)
	r.many(n)
	begun := time.Now()
	ix, _ := r.runner()
	whole(b, ix, n)
	loaded := time.Since(begun)
	for _, c := range []struct{ name, request string }{
		{"first page", ``},
		{"of a profile", `{"profile":"profile-3"}`},
		{"text that few have", `{"text":"TICKET 99 "}`},
		{"text that none has", `{"text":"no ticket has this"}`},
		{"one thousand", `{"limit":1000}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				r.request(sessionsSubject, c.request)
			}
		})
	}
	b.Run("first page after a change", func(b *testing.B) {
		s := r.session(ix, fmt.Sprint("changing", b.N))
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			s.run(fmt.Sprint("p", i), "x", "y")
			reachesBoth(b, s.state.Seq, s.state.Session, ix)
			b.StartTimer()
			r.request(sessionsSubject, ``)
		}
	})
	b.Logf("a runner had read the index after %s", loaded)
}

// BenchmarkTree asks for the family of a session: ten levels of a hundred children, each level those of one session of
// the level above, with 10,000 sessions of no family beside.
func BenchmarkTree(b *testing.B) {
	r := newRig(b)
	parents := map[string]string{}
	parent := "root"
	for level := range 10 {
		for i := range 100 {
			parents[fmt.Sprintf("s-%d-%02d", level, i)] = parent
		}
		parent = fmt.Sprintf("s-%d-%02d", level, 50)
	}
	r.branches("root", parents)
	alone := map[string]string{}
	for i := range 10_000 {
		alone[fmt.Sprintf("alone-%05d", i)] = ""
	}
	r.branches("", alone)
	ix, _ := r.runner()
	whole(b, ix, 1001+len(alone))
	for _, session := range []string{"root", "s-4-50", parent, "s-9-00", "alone-00000"} {
		b.Run(session, func(b *testing.B) {
			b.ReportAllocs()
			var m *nats.Msg
			for b.Loop() {
				m = r.request("agent.query."+session+".tree", "")
			}
			b.StopTimer()
			var tree schemas.SessionTree
			if err := json.Unmarshal(m.Data, &tree); err != nil {
				b.Fatal(err)
			}
			if len(tree.Nodes) == 0 {
				b.Fatalf("%v: %s", m.Header, m.Data)
			}
			b.ReportMetric(float64(len(tree.Nodes)), "sessions")
			b.ReportMetric(float64(len(m.Data)), "bytes")
		})
	}
}

// branches stores logs of sessions that were branched from others, and of a root, if it has a name. Without a parent a
// session has a name and nothing else.
func (r *rig) branches(root string, parents map[string]string) {
	r.t.Helper()
	if root != "" {
		parents = maps.Clone(parents)
		parents[root] = ""
	}
	js := r.conn.JetStream()
	for session, parent := range parents {
		var data schemas.EventData = &schemas.Name{Name: session}
		if parent != "" {
			data = &schemas.SessionBranched{Session: parent, Seq: 1, Messages: schemas.Messages{}}
		}
		header, payload, err := schemas.EncodeCommit(schemas.Event{Session: session, Seq: 1, Time: r.clock, Source: "/x",
			Data: data})
		if err != nil {
			r.t.Fatal(err)
		}
		header[jetstream.ExpectedLastSubjSeqHeader] = []string{"0"}
		m := &nats.Msg{Subject: "agent.evt." + session, Header: header, Data: payload}
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
			r.t.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(time.Minute):
		r.t.Fatal("the logs are not stored")
	}
}
