package eventstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// purged purges the subject of a session's log, as a deletion does at its end.
func purged(t *testing.T, js jetstream.JetStream, session string) {
	t.Helper()
	stream, err := js.Stream(t.Context(), schemas.StreamEvents)
	if err == nil {
		err = stream.Purge(t.Context(), jetstream.WithPurgeSubject("agent.evt."+session))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func tailOf(t *testing.T, s *eventstore.Store, session string) (tail uint64) {
	t.Helper()
	for m, err := range s.Messages(t.Context(), session) {
		if err != nil {
			t.Fatal(err)
		}
		tail = m.Stream
	}
	return tail
}

// A writer that has a session open loses it with its deletion, at every stage of the deletion: it stores nothing more,
// and Confirm fails.
func TestAWriterLosesADeletedSession(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{"fenced", "purged", "begun anew"} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			s, js := newJetStream(t, eventstore.Options{})
			appending, confirming := open(t, s, "s1"), (*eventstore.Log)(nil)
			mustAppend(t, appending, event("s1", 1, "a"), event("s1", 2, "a"))
			confirming = open(t, s, "s1")
			if _, err := s.Fence(t.Context(), "s1", "d1", tailOf(t, s, "s1")); err != nil {
				t.Fatal(err)
			}
			if stage != "fenced" {
				purged(t, js, "s1")
			}
			if stage == "begun anew" {
				mustAppend(t, open(t, s, "s1"), event("s1", 1, "b"), event("s1", 2, "b"), event("s1", 3, "b"))
			}
			before := messagesOn(t, js, "agent.evt.s1")
			if err := appendAll(ctxOf(t), appending, event("s1", 3, "a")); !errors.Is(err, schemas.ErrConflict) {
				t.Errorf("append: %v", err)
			}
			if err := confirming.Confirm(ctxOf(t), time.Now()); !errors.Is(err, schemas.ErrConflict) {
				t.Errorf("confirm: %v", err)
			}
			if after := messagesOn(t, js, "agent.evt.s1"); after != before {
				t.Errorf("%d messages, before %d", after, before)
			}
		})
	}
}

// A session that is being deleted does not open. A session with a fence of an unknown deletion opens and continues
// behind it.
func TestAFenceCountsOnlyWithItsDeletion(t *testing.T) {
	t.Parallel()
	known := func(_ context.Context, session, id string) (bool, error) { return session == "s1" && id == "d1", nil }
	s, _ := newJetStream(t, eventstore.Options{InProgress: known})
	for session, id := range map[string]string{"s1": "d1", "s2": "d1", "s3": "d2"} {
		mustAppend(t, open(t, s, session), event(session, 1, "a"))
		if found, err := s.Fenced(t.Context(), session, ""); err != nil || found != 0 {
			t.Errorf("session %s: fence of no deletion at %d, %v", session, found, err)
		}
		at, err := s.Fence(t.Context(), session, id, tailOf(t, s, session))
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.Fence(t.Context(), session, id, at-1)
		if err != nil || again != at {
			t.Errorf("session %s: fenced again at %d instead of %d, %v", session, again, at, err)
		}
		if found, err := s.Fenced(t.Context(), session, id); err != nil || found != at {
			t.Errorf("session %s: fence at %d instead of %d, %v", session, found, at, err)
		}
	}
	if _, err := s.Open(t.Context(), "s1"); !errors.Is(err, eventstore.ErrDeleting) {
		t.Errorf("opened while it is being deleted: %v", err)
	}
	for _, session := range []string{"s2", "s3"} {
		mustAppend(t, open(t, s, session), event(session, 2, "a"))
		mustVerify(t, s, session, 2)
	}
	if _, err := s.Fence(t.Context(), "s2", "d9", 1); !errors.Is(err, schemas.ErrConflict) {
		t.Errorf("a session that went on is fenced: %v", err)
	}
}

// The payloads of a refused commit are deleted from the object store.
func TestARefusedCommitLeavesNoPayload(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{})
	l := open(t, s, "s1")
	mustAppend(t, l, event("s1", 1, "a"))
	purged(t, js, "s1")
	if err := appendAll(ctxOf(t), l, bigEvent("s1", 2)); !errors.Is(err, schemas.ErrConflict) {
		t.Fatalf("append: %v", err)
	}
	stream, err := js.Stream(t.Context(), "OBJ_"+schemas.BucketBlobs)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing of the payload is left", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Msgs == 0
	})
}

// The payload of a refused commit stays if a stored commit has the same one.
func TestARefusedCommitLeavesThePayloadOfOthers(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{})
	l := open(t, s, "s1")
	mustAppend(t, l, bigEvent("s1", 1))
	mustAppend(t, open(t, s, "s1"), event("s1", 2, "another writer"))
	other := bigEvent("s1", 3)
	other.Data.(*schemas.ErrorEvent).Code = "other"
	if err := appendAll(ctxOf(t), l, bigEvent("s1", 2), other); !errors.Is(err, schemas.ErrConflict) {
		t.Fatalf("append: %v", err)
	}
	stream, err := js.Stream(t.Context(), "OBJ_"+schemas.BucketBlobs)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other payload of the refused commit is deleted", func() bool {
		info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter("$O.*.M.>"))
		return err == nil && len(info.State.Subjects) < 2
	})
	wantSeqs(t, "the log", seqs(t, s.Read(ctxOf(t), "s1", 1)), 2)
}

// Payloads and snapshots are deleted without a trace, those of a session only.
func TestDeletePayloadsAndSnapshots(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{BlobThreshold: 1000})
	state := []byte(strings.Repeat("state", 100<<10))
	refs := make(map[string]string)
	for _, session := range []string{"s1", "s2"} {
		l := open(t, s, session)
		mustAppend(t, l, bigEvent(session, 1))
		if err := l.SaveSnapshot(t.Context(), 7, 1, state); err != nil {
			t.Fatal(err)
		}
		for m, err := range s.Messages(t.Context(), session) {
			events, splitErr := schemas.SplitLog(session, m.Header, m.Payload)
			if err := errors.Join(err, splitErr); err != nil || len(events) != 1 {
				t.Fatalf("%d events, %v", len(events), err)
			}
			refs[session] = events[0].Ref
		}
	}
	for range 2 {
		if err := s.DeletePayload(t.Context(), "s1", refs["s1"], 0); err != nil {
			t.Fatal(err)
		}
		if err := s.DeleteSnapshots(t.Context(), "s1"); err != nil {
			t.Fatal(err)
		}
	}
	// What is left are the pieces and the name of the other session's payload, and its snapshot.
	for name, subjects := range map[string]int{"OBJ_" + schemas.BucketBlobs: 2, "KV_" + schemas.BucketSnapshots: 1} {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
		if err != nil {
			t.Fatal(err)
		}
		if len(info.State.Subjects) != subjects {
			t.Errorf("%s: %v", name, info.State.Subjects)
		}
	}
	mustVerify(t, s, "s2", 1)
	if _, seq, err := open(t, s, "s2").Snapshot(t.Context(), 7); err != nil || seq != 1 {
		t.Errorf("the other session's snapshot: %d, %v", seq, err)
	}
	for _, other := range []string{"nats://agent_blobs/" + strings.Repeat("a", 64), refs["s2"]} {
		if err := s.DeletePayload(t.Context(), "s1", other, 0); err == nil || eventstore.OwnPayload("s1", other) {
			t.Errorf("a payload that others may have was deleted: %v", err)
		}
	}
	mustVerify(t, s, "s2", 1)
}

// A deletion that is late does not delete a payload that was stored again under its name, as a restore does.
func TestDeletePayloadIsBounded(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{BlobThreshold: 1000})
	mustAppend(t, open(t, s, "s1"), bigEvent("s1", 1))
	ref := ""
	for m, err := range s.Messages(t.Context(), "s1") {
		events, splitErr := schemas.SplitLog("s1", m.Header, m.Payload)
		if err := errors.Join(err, splitErr); err != nil || len(events) != 1 {
			t.Fatalf("%d events, %v", len(events), err)
		}
		ref = events[0].Ref
	}
	data, err := s.Payload(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "OBJ_"+schemas.BucketBlobs)
	if err != nil {
		t.Fatal(err)
	}
	bound := stream.CachedInfo().State.LastSeq
	if err := s.DeletePayload(t.Context(), "s1", ref, bound); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Payload(t.Context(), ref); !errors.Is(err, eventstore.ErrDamaged) {
		t.Errorf("the payload is there: %v", err)
	}
	if err := s.PutPayload(t.Context(), ref, data); err != nil {
		t.Fatal(err)
	}
	if err := s.DeletePayload(t.Context(), "s1", ref, bound); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Payload(t.Context(), ref); err != nil {
		t.Errorf("the payload that was stored again was deleted: %v", err)
	}
}
