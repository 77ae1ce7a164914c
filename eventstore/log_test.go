package eventstore_test

import (
	"testing"

	"github.com/loopbus/loopbus/eventstore"
)

func TestSmoke(t *testing.T) {
	s, _ := newJetStream(t, eventstore.Options{})
	ctx := ctxOf(t)
	l, err := s.Open(ctx, "s1")
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= 600; seq++ {
		if err := l.Append(ctx, event("s1", seq, "a")); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range l.Read(ctx, 3) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != uint64(n+3) {
			t.Fatal(e.Seq, n)
		}
		n++
	}
	if n != 598 {
		t.Fatal(n)
	}
}
