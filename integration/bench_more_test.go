package integration_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// BenchmarkFirstEvent measures from the acknowledgement of a prompt to the arrival of the first event of its new
// session at a subscriber of the live subject. The floor is one JetStream publish and the delivery of its message.
func BenchmarkFirstEvent(b *testing.B) {
	server := system.StartServer(b, false)
	s := system.Start(b, server.ClientURL(), system.Options{Model: toolTurns(b, 0)})
	s.Run(b, "warm")
	js := connectFloor(b, server)
	floor := publishAndDeliver(b, js)
	live := make(chan *nats.Msg, 1024)
	sub, err := s.Client.NATS().ChanSubscribe("agent.live.*.event", live)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	var ours, least []time.Duration
	for i := range max(b.N, 20) {
		least = append(least, floor())
		session := fmt.Sprintf("first%d", i)
		done := s.Ended(session)
		if _, err := s.Client.JetStream().Publish(b.Context(), s.Client.Subjects().Command(session, schemas.CommandPrompt),
			[]byte("go")); err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		for m := range live { // drops events of the last run that arrive late
			if m.Subject == s.Client.Subjects().LiveEvent(session) {
				break
			}
		}
		ours = append(ours, time.Since(start))
		<-done
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(median(ours).Microseconds()), "µs/first-event")
	b.ReportMetric(float64(median(least).Microseconds()), "floor-µs")
	b.ReportMetric(float64(median(ours))/float64(median(least)), "×floor-time")
}

// publishAndDeliver returns a function that measures one JetStream publish and the delivery of its message.
func publishAndDeliver(b *testing.B, js jetstream.JetStream) func() time.Duration {
	ctx := b.Context()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "FIRST", Subjects: []string{"first.*"}}); err != nil {
		b.Fatal(err)
	}
	c, err := js.CreateConsumer(ctx, "FIRST", jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		b.Fatal(err)
	}
	came := make(chan struct{}, 1)
	cc, err := c.Consume(func(m jetstream.Msg) { came <- struct{}{}; _ = m.Ack() })
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cc.Stop)
	return func() time.Duration {
		start := time.Now()
		if _, err := js.Publish(ctx, "first.x", []byte("go")); err != nil {
			b.Fatal(err)
		}
		<-came
		return time.Since(start)
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkReplay reads one session of 200 events from streams with more and more events of other sessions: the time
// must depend on the length of the session, not of the stream.
func BenchmarkReplay(b *testing.B) {
	server := system.StartServer(b, false)
	c := system.Connect(b, server.ClientURL(), "replay")
	if err := streams.Setup(b.Context(), c, streams.Options{}); err != nil {
		b.Fatal(err)
	}
	store, err := eventstore.New(c.Events(), eventstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	const perSession = 200
	written := 0
	for _, sessions := range []int{1, 20, 200} {
		start := time.Now()
		fresh := sessions - written
		writeSessions(b, store, written, sessions, perSession)
		written = sessions
		appended := float64(fresh*perSession) / time.Since(start).Seconds()
		b.Run(fmt.Sprintf("stream=%d", sessions*perSession), func(b *testing.B) {
			for b.Loop() {
				n := 0
				for _, err := range store.Read(b.Context(), "replay0", 1) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != perSession {
					b.Fatalf("%d events", n)
				}
			}
			b.ReportMetric(perSession*float64(b.N)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(appended, "appended-events/s")
		})
	}
}

// writeSessions interleaves the sessions' events one by one.
func writeSessions(b *testing.B, store *eventstore.Store, from, to, events int) {
	logs := make([]*eventstore.Log, 0, to-from)
	for i := from; i < to; i++ {
		log, err := store.Open(b.Context(), fmt.Sprintf("replay%d", i))
		if err != nil {
			b.Fatal(err)
		}
		logs = append(logs, log)
	}
	for seq := range uint64(events) {
		for i, log := range logs {
			err := log.Append(b.Context(), schemas.Event{
				Session: fmt.Sprintf("replay%d", from+i), Seq: seq + 1, Time: time.Now(), Source: "/loopbus/runner/bench",
				Data: &schemas.ErrorEvent{Code: "bench", Message: "an event of ordinary size, more or less", Recoverable: true},
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, log := range logs {
		if err := log.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
		log.Close()
	}
}

// TestALogGrowsWithWhatIsSaid checks the promise that a turn with n deltas stores O(n) bytes. A reply of fifty thousand
// characters in two thousand deltas stores its text once in the log and twice in the updates (in the deltas, and
// completely in text_end), and some bytes for each event and update. An update is published at most every 25 ms.
func TestALogGrowsWithWhatIsSaid(t *testing.T) {
	t.Parallel()
	const (
		characters = 50_000
		around     = 2_000 // bytes that an event or update may have in addition to its text
		interval   = 25 * time.Millisecond
	)
	text := strings.Repeat("word ", characters/5)
	model, err := scripted.NewScripts(scripted.Options{ChunkSize: 25, ChunkDelay: 20 * time.Microsecond},
		scripted.Script{Responses: []scripted.Response{scripted.Text(text)}})
	if err != nil {
		t.Fatal(err)
	}
	s := system.StartAlone(t, system.Options{Model: model})
	start := time.Now()
	s.Run(t, "s1")
	elapsed := time.Since(start)
	log, updates := state(t, s, schemas.StreamEvents), state(t, s, schemas.StreamUpdates)
	if most := characters + around*log.Msgs; log.Bytes > most {
		t.Errorf("the log of %d events has %d bytes, more than %d", log.Msgs, log.Bytes, most)
	}
	if most := 2*characters + around/2*updates.Msgs; updates.Bytes > most {
		t.Errorf("%d updates have %d bytes, more than %d", updates.Msgs, updates.Bytes, most)
	}
	if most := uint64(elapsed/interval) + 3; updates.Msgs > most {
		t.Errorf("%d updates in %s, more than %d", updates.Msgs, elapsed, most)
	}
	if updates.Msgs < 3 {
		t.Errorf("only %d updates: the reply was not streamed", updates.Msgs)
	}
}

func state(t *testing.T, s *system.System, name string) jetstream.StreamState {
	stream, err := s.Conn.JetStream().Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State
}
