package eventstore_test

import (
	"errors"
	"testing"

	"github.com/loopbus/loopbus/eventstore"
)

// A reader that knows its place reads only the tail, and the new head of the log.
func TestTail(t *testing.T) {
	t.Parallel()
	s, _ := newJetStream(t, eventstore.Options{})
	if seq, stream, err := s.Head(ctxOf(t), "s1"); seq != 0 || stream != 0 || err != nil {
		t.Fatalf("the head of nothing is %d at %d, %v", seq, stream, err)
	}
	if _, _, err := s.Head(ctxOf(t), "a.b"); err == nil {
		t.Error("an illegal session has a head")
	}
	l := open(t, s, "s1")
	mustAppend(t, l, event("s1", 1, "a"))
	mustAppend(t, open(t, s, "s2"), event("s2", 1, "b"))
	seq, stream, err := s.Head(ctxOf(t), "s1")
	if err != nil || seq != 1 || stream != 1 {
		t.Fatalf("head %d at %d, %v", seq, stream, err)
	}
	mustAppend(t, l, event("s1", 2, "a"))
	mustAppend(t, l, event("s1", 3, "a"))
	head, at, err := s.Head(ctxOf(t), "s1")
	if known, knownAt := l.Stored(); err != nil || head != 3 || known != head || knownAt != at {
		t.Fatalf("head %d at %d, stored %d at %d, %v", head, at, known, knownAt, err)
	}
	next := seq + 1
	for e, err := range s.Between(ctxOf(t), "s1", seq, stream, at) {
		if err != nil || e.Seq != next {
			t.Fatalf("event %d, want %d: %v", e.Seq, next, err)
		}
		next++
	}
	if next != 4 {
		t.Errorf("the tail ends before %d", next)
	}
	for _, err := range s.Between(ctxOf(t), "s1", 7, stream, at) {
		if !errors.Is(err, eventstore.ErrDamaged) {
			t.Errorf("a place of another log: %v", err)
		}
	}
}

// Every event is found, also with messages of other sessions and foreign messages in between.
func TestSeek(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{})
	l, other := open(t, s, "s1"), open(t, s, "s2")
	const n = 40
	for seq := uint64(1); seq <= n; {
		for range 1 + seq%3 { // commits of one to three events
			if err := l.Append(ctxOf(t), event("s1", seq, "a")); err != nil {
				t.Fatal(err)
			}
			seq++
		}
		if err := l.Flush(ctxOf(t)); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, other, event("s2", otherNext(other), "b"))
		if seq%7 == 0 { // what is no part of the log
			for range 3 {
				if _, err := js.Publish(ctxOf(t), "agent.evt.s1", []byte("x")); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if _, err := js.Publish(ctxOf(t), "agent.evt.s1", []byte("x")); err != nil {
		t.Fatal(err)
	}
	head, upTo, err := s.Head(ctxOf(t), "s1")
	if err != nil {
		t.Fatal(err)
	}
	for want := uint64(1); want <= head; want++ {
		seq, after, err := s.Seek(ctxOf(t), "s1", want)
		if err != nil || seq >= want {
			t.Fatalf("event %d is behind %d, %v", want, seq, err)
		}
		for e, err := range s.Between(ctxOf(t), "s1", seq, after, upTo) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Seq == want {
				break
			}
			if e.Seq > want || want-e.Seq > 3 {
				t.Fatalf("event %d read for event %d", e.Seq, want)
			}
		}
	}
	if seq, after, err := s.Seek(ctxOf(t), "s1", head+5); seq != head || after != upTo || err != nil {
		t.Errorf("beyond the end: %d at %d, %v", seq, after, err)
	}
}

func otherNext(l *eventstore.Log) uint64 {
	seq, _ := l.Stored()
	return seq + 1
}
