package eventstore_test

import (
	"bytes"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// goldenDamage is a way to hurt a log.
type goldenDamage struct {
	name, about string
	hurt        func(g *goldenLog)
}

var goldenDamages = []goldenDamage{
	{"payload", "a word of a message was changed", func(g *goldenLog) {
		for i := range g.messages {
			m := &g.messages[i]
			if changed := bytes.Replace(m.Payload, []byte("Looking."), []byte("Lurking."), 1); !bytes.Equal(changed, m.Payload) {
				m.Payload = changed
			}
		}
	}},
	{"header", "the command an event goes back to was changed", func(g *goldenLog) { g.set(5, schemas.HeaderCausationID, "p9") }},
	{"missing", "an event is missing in the middle", func(g *goldenLog) { g.messages = slices.Delete(g.messages, 6, 7) }},
	{"swapped", "two events have changed places", func(g *goldenLog) {
		g.messages[3], g.messages[4] = g.messages[4], g.messages[3]
		g.messages[3].Stream, g.messages[4].Stream = g.messages[4].Stream, g.messages[3].Stream
	}},
	{"truncated", "the last events are missing, and the snapshot is of one of them", func(g *goldenLog) { g.messages = g.messages[:3] }},
	{"half", "the last event was stored in part", func(g *goldenLog) {
		last := &g.messages[len(g.messages)-1]
		last.Payload = last.Payload[:len(last.Payload)/2]
	}},
	{"unknown", "an event has a type of a later version", func(g *goldenLog) {
		g.set(len(g.messages)-1, schemas.HeaderType, schemas.CloudEventType("agent_slept"))
	}},
	{"schema", "the last event lacks what it must have", func(g *goldenLog) {
		last := &g.messages[len(g.messages)-1]
		last.Payload = []byte(strings.Replace(string(last.Payload), `"turns"`, `"rounds"`, 1))
	}},
	{"snapshot", "the snapshot was changed", func(g *goldenLog) { g.snapshot[len(g.snapshot)/2]++ }},
}

// set changes a header of a message.
func (g *goldenLog) set(i int, key, value string) { g.messages[i].Header[key] = []string{value} }
