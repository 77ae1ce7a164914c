package live

import (
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// Once its deltas are joined, an event keeps no long buffer for the next ones.
func TestJoinedDeltasLeaveNoBuffer(t *testing.T) {
	t.Parallel()
	e := new(eventUpdates)
	for range 3 {
		e.join(schemas.StreamEvent{Type: schemas.StreamTextDelta, Delta: strings.Repeat("x", 30<<10)})
	}
	e.closeTail()
	if n := len(e.events[0].Delta); len(e.events) != 1 || n != 90<<10 || cap(e.tail) > 4<<10 {
		t.Errorf("%d events, the first of %d bytes; a buffer of %d is kept", len(e.events), n, cap(e.tail))
	}
}
