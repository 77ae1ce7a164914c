package eventstoretest

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// foldVersion is the version of the suite's fold: the number of events and the last turn.
const foldVersion = 3

var verifyAll = eventstore.VerifyOptions{Version: foldVersion, Refold: fold}

func fold(events iter.Seq[schemas.Event]) ([]byte, error) {
	n, last := 0, uint64(0)
	for e := range events {
		n, last = n+1, e.Seq
	}
	return fmt.Appendf(nil, "%d events, the last is %d", n, last), nil
}

func testSnapshot(t *testing.T, s Store) {
	ctx := contextFor(t)
	l := mustOpen(t, s, "s1")
	mustAppend(t, l, simples("s1", 1, 10)...)
	random := make([]byte, 700<<10) // cannot be compressed, so it stays big
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(random)
	for i, state := range [][]byte{[]byte("small\n{}"), {}, bytes.Repeat([]byte("state "), 100_000), random,
		[]byte("last")} {
		seq := uint64(i + 6)
		if err := l.SaveSnapshot(ctx, 1, seq, state); err != nil {
			t.Fatalf("save %d bytes: %v", len(state), err)
		}
		for name, l := range map[string]*eventstore.Log{"same log": l, "log opened again": mustOpen(t, s, "s1")} {
			got, at, err := l.Snapshot(ctx, 1)
			if err != nil || at != seq || !bytes.Equal(got, state) {
				t.Fatalf("%s: snapshot of %d bytes at %d: %v; want %d bytes at %d", name, len(got), at, err, len(state), seq)
			}
			if d := diff(simples("s1", seq+1, 10), collect(t, l.Read(ctx, seq+1))); d != "" {
				t.Errorf("%s: tail (-want +got):\n%s", name, d)
			}
			if d := diff(simples("s1", 2, 10), collect(t, l.Read(ctx, 2))); d != "" {
				t.Errorf("%s: from before the snapshot (-want +got):\n%s", name, d)
			}
		}
	}
	if _, seq, err := l.Snapshot(ctx, 2); seq != 0 || err != nil {
		t.Errorf("snapshot under another version is at %d: %v", seq, err)
	}
	if _, seq, err := mustOpen(t, s, "s2").Snapshot(ctx, 1); seq != 0 || err != nil {
		t.Errorf("snapshot of another session is at %d: %v", seq, err)
	}
	got, _, err := l.Snapshot(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	clear(got) // it is the caller's
	if got, _, _ := l.Snapshot(ctx, 1); string(got) != "last" {
		t.Errorf("snapshot changed to %q", got)
	}
}

func testSnapshotPlace(t *testing.T, s Store) {
	ctx := contextFor(t)
	l := mustOpen(t, s, "s1")
	for _, seq := range []uint64{0, 1} {
		if err := l.SaveSnapshot(ctx, 1, seq, nil); err == nil {
			t.Errorf("a snapshot at %d of an empty log was saved", seq)
		}
	}
	mustAppend(t, l, simples("s1", 1, 2)...)
	if err := l.SaveSnapshot(ctx, 1, 3, nil); err == nil {
		t.Error("a snapshot beyond the head was saved")
	}
	// Appended and not flushed: saving waits.
	if err := l.Append(ctx, simple("s1", 3, "/a")); err != nil {
		t.Fatal(err)
	}
	if err := l.SaveSnapshot(ctx, 1, 3, []byte("x")); err != nil {
		t.Error(err)
	}
	if _, seq, err := l.Snapshot(ctx, 1); seq != 3 || err != nil {
		t.Errorf("snapshot is at %d: %v", seq, err)
	}
}

func testVerifyRefold(t *testing.T, s Store) {
	ctx := contextFor(t)
	l := mustOpen(t, s, "s1")
	mustAppend(t, l, simples("s1", 1, 10)...)
	if err := l.SaveSnapshot(ctx, foldVersion, 7, []byte("7 events, the last is 7")); err != nil {
		t.Fatal(err)
	}
	mustVerify(t, s, "s1", 10)
	r, err := s.Verify(ctx, "s1", verifyAll)
	if err != nil || r.Snapshot != 7 {
		t.Errorf("checked the snapshot at %d: %v", r.Snapshot, err)
	}
	if err := l.SaveSnapshot(ctx, foldVersion, 8, []byte("7 events, the last is 7")); err != nil {
		t.Fatal(err)
	}
	r, err = s.Verify(ctx, "s1", verifyAll)
	if err != nil || r.OK() || r.Bad.Seq != 8 || r.Bad.What != "snapshot version 3" {
		t.Errorf("a snapshot that is not the fold: %v, %v", r.Bad, err)
	}
	refused := errors.New("fold refuses")
	r, err = s.Verify(ctx, "s1", eventstore.VerifyOptions{
		Version: foldVersion, Refold: func(iter.Seq[schemas.Event]) ([]byte, error) { return nil, refused },
	})
	if err != nil || r.OK() {
		t.Errorf("a fold that refuses: %v, %v", r.Bad, err)
	}
}
