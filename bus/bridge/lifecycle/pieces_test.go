package lifecycle

import (
	"runtime"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// Whoever serves a model, or executes tools, chooses the pieces. Many small ones behind a long text do not cost that
// text each; their indexes count characters.
func TestSmallPiecesOfALongReply(t *testing.T) {
	var p Projection
	say := func(texts ...string) (last TextDelta) {
		u := &schemas.MessageUpdate{MessageID: "m4"}
		for _, text := range texts {
			u.AssistantMessageEvents = append(u.AssistantMessageEvents,
				schemas.StreamEvent{Type: schemas.StreamTextDelta, Delta: text})
		}
		events, err := p.Apply(client.Item{Update: &schemas.Update{Session: "s1", Event: 4, Data: u}})
		if err != nil {
			t.Fatal(err)
		}
		return events[len(events)-1].Payload.(TextDelta)
	}
	say(strings.Repeat("é", 1<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	last := say(strings.Split(strings.Repeat("é", 1000), "")...)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
		t.Errorf("pieces of 2,000 bytes took %d MiB", took>>20)
	}
	if want := 1<<20 + 999; last.Index != want || last.Delta != "é" {
		t.Errorf("the last is %+v, want index %d", last, want)
	}
}
