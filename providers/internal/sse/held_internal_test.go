package sse

import (
	"strings"
	"testing"

	"github.com/loopbus/loopbus/providers/internal/held"
	"github.com/loopbus/loopbus/schemas"
)

// Events that are long and do not end share the budget of all replies. Short ones are read whatever others hold.
func TestUnfinishedEventsShareABudget(t *testing.T) {
	t.Parallel()
	budget := held.New(8<<20, keptBuffer)
	decoder := func(event string) *Decoder {
		d := NewDecoder(strings.NewReader("data: " + event + "\n\n"))
		d.share = budget.Share()
		t.Cleanup(d.Close)
		return d
	}
	next := func(d *Decoder, want schemas.FailureCode) {
		t.Helper()
		_, err := d.Next()
		if (err == nil) != (want == "") || err != nil && schemas.FailureCodeOf(err) != want {
			t.Errorf("%v, want the code %q", err, want)
		}
	}
	long := strings.Repeat("x", 3<<20)
	first := decoder(long)
	next(first, "") // it holds the event until the next one is read
	next(decoder(long), schemas.FailureOverloaded)
	next(decoder("short"), "")
	first.Close()
	next(decoder(long), "")
}
