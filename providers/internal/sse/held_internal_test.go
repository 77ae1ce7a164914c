package sse

import (
	"strings"
	"testing"

	"github.com/loopbus/loopbus/providers/internal/held"
)

// Events that are long and do not end share the budget of all replies: the longest ends. Short ones are read whatever
// others hold.
func TestUnfinishedEventsShareABudget(t *testing.T) {
	t.Parallel()
	budget := held.New(12<<20, keptBuffer)
	type reading struct {
		*Decoder
		ended error
	}
	read := func(event string) *reading {
		t.Helper()
		r := &reading{}
		var share *held.Share
		share = budget.Share(t.Context(), "", func(err error) {
			r.ended = err
			go share.Release() // as the reply ends
		})
		r.Decoder = NewDecoder(strings.NewReader("data: "+event+"\n\ndata: next\n\n"), share)
		t.Cleanup(r.Close)
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	long := read(strings.Repeat("x", 3<<20)) // it holds the event until the next one is read
	short, middle := read("short"), read(strings.Repeat("x", 1<<20))
	if long.ended != nil {
		t.Fatalf("within the budget: %v", long.ended)
	}
	other := read(strings.Repeat("x", 2<<20))
	if !held.Ended(long.ended) || short.ended != nil || middle.ended != nil || other.ended != nil {
		t.Errorf("ended: %v, %v, %v, %v, want the first", long.ended, short.ended, middle.ended, other.ended)
	}
	if _, err := other.Next(); err != nil {
		t.Error(err)
	}
	if again := read(strings.Repeat("x", 3<<20)); again.ended != nil {
		t.Errorf("there is room after events were read: %v", again.ended)
	}
}

// A vendor that sends a long event first, and nothing or little after it, does not keep its buffer: a thousand replies
// may wait for their next event.
func TestLongEventsLeaveNoBuffer(t *testing.T) {
	t.Parallel()
	const end, most = "d", 16 << 10
	for _, size := range []int{10 << 10, 100 << 10, 1 << 20} {
		d := NewDecoder(strings.NewReader("data: "+strings.Repeat("x", size)+"\n\n"+end),
			held.New(1<<30, 0).Share(t.Context(), "", nil))
		if _, err := d.Next(); err != nil {
			t.Fatal(err)
		}
		if e, err := d.Next(); err != nil || string(e.Raw) != end {
			t.Fatalf("%q, %v", e.Raw, err)
		}
		if cap(d.raw) > most || cap(d.data) > most {
			t.Errorf("after an event of %d bytes it keeps %d and %d", size, cap(d.raw), cap(d.data))
		}
	}
}
