package eventstore_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// BenchmarkAppend compares an append that is flushed at once with what it cannot be faster than: publishing the same
// message with the same expectation.
func BenchmarkAppend(b *testing.B) {
	s, js := newJetStream(b, eventstore.Options{})
	ctx := b.Context()
	b.Run("bare", func(b *testing.B) {
		header, payload, err := schemas.EncodeEvent(event("bare", 1, "bench"))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		subject := "agent.evt.bare" + b.Name()[len(b.Name())-1:]
		var last uint64
		if m, err := js.Stream(ctx, schemas.StreamEvents); err != nil {
			b.Fatal(err)
		} else if raw, err := m.GetLastMsgForSubject(ctx, subject); err == nil {
			last = raw.Sequence
		}
		for b.Loop() {
			ack, err := js.PublishMsg(ctx, &nats.Msg{Subject: subject, Header: header, Data: payload}, jetstream.WithExpectLastSequencePerSubject(last))
			if err != nil {
				b.Fatal(err)
			}
			last = ack.Sequence
		}
	})
	b.Run("log", func(b *testing.B) {
		log, err := s.Open(ctx, "s1")
		if err != nil {
			b.Fatal(err)
		}
		defer log.Close()
		b.ReportAllocs()
		seq := uint64(0)
		for range log.Read(ctx, 1) {
			seq++
		}
		b.ResetTimer()
		for b.Loop() {
			seq++
			if err := log.Append(ctx, event("s1", seq, "bench")); err != nil {
				b.Fatal(err)
			}
			if err := log.Flush(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("log, 8 per flush", func(b *testing.B) {
		log, err := s.Open(ctx, "s8")
		if err != nil {
			b.Fatal(err)
		}
		defer log.Close()
		b.ReportAllocs()
		seq := uint64(0)
		for range log.Read(ctx, 1) {
			seq++
		}
		b.ResetTimer()
		for b.Loop() {
			seq++
			if err := log.Append(ctx, event("s8", seq, "bench")); err != nil {
				b.Fatal(err)
			}
			if seq%8 == 0 {
				if err := log.Flush(ctx); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
