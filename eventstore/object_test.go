package eventstore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// halve removes the first chunk of every object, as happens if the object store was full or the writer died.
func halve(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "OBJ_"+schemas.BucketBlobs)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter("$O."+schemas.BucketBlobs+".C.>"))
	if err != nil {
		t.Fatal(err)
	}
	for subject := range info.State.Subjects {
		if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(subject), jetstream.WithPurgeKeep(1)); err != nil {
			t.Fatal(err)
		}
	}
}

func bigEvent(session string, seq uint64) schemas.Event {
	e := event(session, seq, "/loopbus/runner/test")
	e.Data = &schemas.ErrorEvent{Code: "big", Message: strings.Repeat("0123456789", 40<<10), Recoverable: true}
	return e
}

// An incomplete object does not count as stored: it is put again.
func TestIncompleteObjectIsPutAgain(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{})
	l := open(t, s, "s1")
	mustAppend(t, l, bigEvent("s1", 1))
	halve(t, js)
	mustAppend(t, l, bigEvent("s1", 2)) // the same payload
	report, err := s.Verify(t.Context(), "s1", eventstore.VerifyOptions{})
	if err != nil || !report.OK() || report.Blobs != 2 {
		t.Errorf("%+v, %v", report, err)
	}
}

// Reading an incomplete object fails at once and does not wait for the missing chunks.
func TestIncompleteObjectIsDamage(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{})
	mustAppend(t, open(t, s, "s1"), bigEvent("s1", 1))
	halve(t, js)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	report, err := s.Verify(ctx, "s1", eventstore.VerifyOptions{})
	if err != nil || report.OK() || report.Bad.Seq != 1 || !strings.Contains(report.Bad.Error(), "1 chunks of 4") {
		t.Errorf("%+v, %v", report, err)
	}
}

// Any client that may read objects can use up all consumers of the stream. A session with large events can be loaded
// without one.
func TestAnObjectIsReadWithoutAConsumer(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{})
	mustAppend(t, open(t, s, "s1"), bigEvent("s1", 1))
	bustest.TakeConsumers(t, js.Conn(), "OBJ_"+schemas.BucketBlobs, "$O."+schemas.BucketBlobs+".C.>")
	report, err := s.Verify(t.Context(), "s1", eventstore.VerifyOptions{})
	if err != nil || !report.OK() || report.Blobs != 1 {
		t.Errorf("%+v, %v", report, err)
	}
}

// A payload that cannot be read in time is not damaged.
func TestASlowObjectIsNoDamage(t *testing.T) {
	t.Parallel()
	s, _ := newJetStream(t, eventstore.Options{})
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	ref := fmt.Sprintf("nats://agent_blobs/s1/A/%x", sha256.Sum256(data))
	if err := s.PutPayload(bustest.Deadline(t), ref, data); err != nil {
		t.Fatal(err)
	}
	late := 0
	for limit := time.Millisecond; limit < time.Minute && late < 30; limit += limit / 8 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err := s.Payload(ctx, ref)
		cancel()
		if err == nil {
			break
		}
		if late++; errors.Is(err, eventstore.ErrDamaged) {
			t.Fatalf("after %s: %v", limit, err)
		}
	}
	if late == 0 {
		t.Error("a payload of 16 MiB was read within a millisecond")
	}
}
