package eventstore_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// overlay makes the server store an answer at every subject of the object store that has messages, as any client that
// knows the names can. The answer has no payload if it is to a get.
func overlay(t *testing.T, js jetstream.JetStream, request nats.Msg) {
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
		if err := js.Conn().PublishMsg(&nats.Msg{Subject: request.Subject, Reply: subject}); err != nil {
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
	for _, answered := range []nats.Msg{state, notFound} {
		s, js := newJetStream(t, eventstore.Options{})
		mustAppend(t, open(t, s, "s1"), bigEvent("s1", 1))
		overlay(t, js, answered)
		overlay(t, js, answered)
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
}

// An object is put in place of a server's answer, and deleted with all its chunks below one.
func TestAnObjectIsPutAndDeletedInSpiteOfAnswers(t *testing.T) {
	t.Parallel()
	for _, answered := range []nats.Msg{state, notFound} {
		s, js := newJetStream(t, eventstore.Options{})
		data := []byte("data")
		ref := fmt.Sprintf("nats://agent_blobs/s1/A/%x", sha256.Sum256(data))
		for range 2 {
			if err := s.PutPayload(ctxOf(t), ref, data); err != nil {
				t.Fatal(err)
			}
			overlay(t, js, answered)
		}
		if err := s.DeletePayload(ctxOf(t), "s1", ref, 0); err != nil {
			t.Error(err)
		}
		stream, err := js.Stream(t.Context(), "OBJ_"+schemas.BucketBlobs)
		if err != nil || stream.CachedInfo().State.Msgs != 0 {
			t.Errorf("left are %d messages, %v", stream.CachedInfo().State.Msgs, err)
		}
	}
}
