package eventstore_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// goldenDamage is a way to hurt a log.
type goldenDamage struct {
	name, about string
	hurt        func(g *goldenLog)
}

var goldenDamages = []goldenDamage{
	{"payload", "a word of a message was changed",
		func(g *goldenLog) { g.replace(g.with("Looking."), "Looking.", "Lurking.") }},
	{"previous", "a commit says it follows another history", func(g *goldenLog) {
		g.messages[4].Header[schemas.HeaderPrevious] = g.messages[3].Header[schemas.HeaderPrevious]
	}},
	{"first", "the header of a commit says that it begins an event later", func(g *goldenLog) { g.span(1, 0) }},
	{"last", "the header of a commit says that it has one event less", func(g *goldenLog) { g.span(0, -1) }},
	{"prefix", "a commit was stored in part, as a whole batch", func(g *goldenLog) {
		m := &g.messages[g.largest()]
		m.Payload = append(slices.Clip(m.Payload[:bytes.LastIndex(m.Payload, []byte(`,{"specversion"`))]), ']')
	}},
	{"inside", "an event is missing inside a commit", func(g *goldenLog) {
		m := &g.messages[g.largest()]
		events := bytes.SplitAfter(m.Payload, []byte(`,{"specversion"`))
		m.Payload = slices.Concat(append(events[:1:1], events[2:]...)...)
	}},
	{"reordered", "two events of a commit have changed their ids", func(g *goldenLog) {
		i := g.largest()
		first, _, _ := schemas.LogSpan(g.Session, g.messages[i].Header)
		a, b := schemas.Event{Session: g.Session, Seq: first}.ID(), schemas.Event{Session: g.Session, Seq: first + 1}.ID()
		g.messages[i].Payload = []byte(strings.NewReplacer(`"`+a+`"`, `"`+b+`"`, `"`+b+`"`,
			`"`+a+`"`).Replace(string(g.messages[i].Payload)))
	}},
	{"twice", "two events of a commit have one id", func(g *goldenLog) {
		i := g.largest()
		first, _, _ := schemas.LogSpan(g.Session, g.messages[i].Header)
		g.replace(i, `"`+schemas.Event{Session: g.Session, Seq: first + 1}.ID()+`"`,
			`"`+schemas.Event{Session: g.Session, Seq: first}.ID()+`"`)
	}},
	{"missing", "a commit is missing in the middle", func(g *goldenLog) { g.messages = slices.Delete(g.messages, 4, 5) }},
	{"swapped", "two commits have changed places", func(g *goldenLog) {
		g.messages[3], g.messages[4] = g.messages[4], g.messages[3]
		g.messages[3].Stream, g.messages[4].Stream = g.messages[4].Stream, g.messages[3].Stream
	}},
	{"truncated", "the last commits are missing, and the snapshot is of one of them",
		func(g *goldenLog) { g.messages = g.messages[:2] }},
	{"half", "the last commit was stored in part", func(g *goldenLog) {
		last := &g.messages[len(g.messages)-1]
		last.Payload = last.Payload[:len(last.Payload)/2]
	}},
	{"unknown", "an event has a type of a later version", func(g *goldenLog) {
		g.replace(len(g.messages)-1, schemas.CloudEventType(schemas.EventAgentEnd), schemas.CloudEventType("agent_slept"))
	}},
	{"format", "a commit has the format of a later version", func(g *goldenLog) {
		g.messages[len(g.messages)-1].Header[schemas.HeaderCommit] = []string{"v3 1-2"}
	}},
	{"schema", "the last event lacks what it must have",
		func(g *goldenLog) { g.replace(len(g.messages)-1, `"turns"`, `"rounds"`) }},
	{"snapshot", "the snapshot was changed", func(g *goldenLog) { g.snapshot[len(g.snapshot)/2]++ }},
}

// replace changes the payload of a message.
func (g *goldenLog) replace(i int, old, replacement string) {
	g.messages[i].Payload = bytes.Replace(g.messages[i].Payload, []byte(old), []byte(replacement), 1)
}

// with is the message whose payload has a text.
func (g *goldenLog) with(text string) int {
	return slices.IndexFunc(g.messages, func(m eventstore.Stored) bool { return bytes.Contains(m.Payload, []byte(text)) })
}

// largest is the commit with the most events.
func (g *goldenLog) largest() (i int) {
	most := uint64(0)
	for n, m := range g.messages {
		if first, last, err := schemas.LogSpan(g.Session, m.Header); err == nil && last-first > most {
			i, most = n, last-first
		}
	}
	return i
}

// span changes what the header of the largest commit says of its events.
func (g *goldenLog) span(first, last int) {
	m := &g.messages[g.largest()]
	from, to, _ := schemas.LogSpan(g.Session, m.Header)
	m.Header[schemas.HeaderCommit] = []string{fmt.Sprintf("v2 %d-%d", from+uint64(first), to+uint64(last))}
}
