package eventstore_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// overlay makes the server store an answer at every subject of the object store that has messages, as any client that
// knows the names can.
func overlay(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "OBJ_"+schemas.BucketBlobs)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	for subject := range info.State.Subjects {
		before := stream.CachedInfo().State.LastSeq
		if err := js.Conn().PublishMsg(&nats.Msg{Subject: "$JS.API.STREAM.INFO.AGENT_EVT", Reply: subject}); err != nil {
			t.Fatal(err)
		}
		for stream.CachedInfo().State.LastSeq == before {
			if _, err := stream.Info(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A server's answer over an object never passes for an empty object, and a store with Heal removes it.
func TestServerAnswerOverPayloadIsRemoved(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{})
	mustAppend(t, open(t, s, "s1"), bigEvent("s1", 1))
	overlay(t, js)
	overlay(t, js)
	report, err := s.Verify(t.Context(), "s1", eventstore.VerifyOptions{})
	if err != nil || report.OK() || !strings.Contains(report.Bad.Error(), "entry of the object is overwritten") {
		t.Errorf("a store without Heal: %+v, %v", report, err)
	}
	healing, err := eventstore.New(js, eventstore.Options{Heal: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []*eventstore.Store{healing, s} {
		report, err := who.Verify(t.Context(), "s1", eventstore.VerifyOptions{})
		if err != nil || !report.OK() || report.Blobs != 1 {
			t.Errorf("%+v, %v", report, err)
		}
	}
}
