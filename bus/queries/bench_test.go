package queries_test

import (
	"fmt"
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
