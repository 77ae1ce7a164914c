package eventstore_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// BenchmarkAppend compares an append that is flushed at once with what it can hardly be faster than: publishing a
// ready-made message of the same size with the same expectation. "stream" flushes after eight events.
func BenchmarkAppend(b *testing.B) {
	s, js := newJetStream(b, eventstore.Options{})
	session := 0
	fresh := func() string { session++; return "s" + strconv.Itoa(session) }
	b.Run("bare", func(b *testing.B) {
		header, payload, err := schemas.EncodeEvent(event("s0000000", 1, "/loopbus/runner/bench"))
		if err != nil {
			b.Fatal(err)
		}
		subject, last := "agent.evt."+fresh(), uint64(0)
		b.ReportAllocs()
		for b.Loop() {
			m := &nats.Msg{Subject: subject, Header: header, Data: payload}
			ack, err := js.PublishMsg(b.Context(), m, jetstream.WithExpectLastSequencePerSubject(last))
			if err != nil {
				b.Fatal(err)
			}
			last = ack.Sequence
		}
	})
	for _, c := range []struct {
		name  string
		every uint64
	}{{"log", 1}, {"stream", 8}} {
		b.Run(c.name, func(b *testing.B) {
			name := fresh()
			log, err := s.Open(b.Context(), name)
			if err != nil {
				b.Fatal(err)
			}
			defer log.Close()
			seq := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				seq++
				if err := log.Append(b.Context(), event(name, seq, "/loopbus/runner/bench")); err != nil {
					b.Fatal(err)
				}
				if seq%c.every != 0 {
					continue
				}
				if err := log.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRead reads one session of 1000 events, alone in the stream and among 1000 sessions: interleaved one by one
// is the worst case, in bursts of 50 is how sessions are.
func BenchmarkRead(b *testing.B) {
	for _, c := range []struct {
		name            string
		sessions, burst int
	}{{"alone", 1, 1000}, {"of 1000, bursts of 50", 1000, 50}, {"of 1000, one by one", 1000, 1}} {
		b.Run(c.name, func(b *testing.B) {
			s, js := newJetStream(b, eventstore.Options{})
			load(b, js, c.sessions, 1000, c.burst)
			session := 0
			for b.Loop() {
				session = (session + 389) % c.sessions
				n := 0
				for _, err := range s.Read(b.Context(), "s"+strconv.Itoa(session), 1) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != 1000 {
					b.Fatal(n)
				}
			}
			b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// load fills sessions with events, burst by burst.
func load(b *testing.B, js jetstream.JetStream, sessions, events, burst int) {
	b.Helper()
	for from := 0; from < events; from += burst {
		for i := range sessions {
			name := fmt.Sprint("s", i)
			for n := range burst {
				header, payload, err := schemas.EncodeEvent(event(name, uint64(from+n+1), "/loopbus/runner/bench"))
				if err != nil {
					b.Fatal(err)
				}
				for { // the library stalls where too many are under way, and gives up after a while
					_, err = js.PublishMsgAsync(&nats.Msg{Subject: "agent.evt." + name, Header: header, Data: payload})
					if err == nil {
						break
					}
				}
			}
		}
	}
	<-js.PublishAsyncComplete()
}
