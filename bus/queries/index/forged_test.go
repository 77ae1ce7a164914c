package index_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/view"
	"github.com/loopbus/loopbus/schemas"
)

// An entry can be written, whatever costs and times the events of a forged log have.
func TestEntriesOfForgedLogsAreWritten(t *testing.T) {
	t.Parallel()
	var e index.Entry
	reply := &schemas.AssistantMessage{Usage: schemas.Usage{Cost: schemas.Cost{Total: 1e308}}}
	late := time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
	for n, d := range []schemas.EventData{
		&schemas.MessageEnd{Message: schemas.AnyMessage{Message: reply}},
		&schemas.MessageEnd{Message: schemas.AnyMessage{Message: reply}},
		&schemas.ApprovalRequested{ToolCallID: "t1", Call: schemas.NewCallKey(1), ToolName: "bash", TimeoutMs: 100_000},
	} {
		e.Apply(schemas.Event{Session: "s1", Seq: uint64(n + 1), Time: late, Data: d})
	}
	if _, err := schemas.Marshal(&e); err != nil {
		t.Error(err)
	}
}

// A log whose events lack members, or have null for them, is refused or folded: no reader of it panics.
func TestForgedLogsAreFolded(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../eventstore/testdata/golden/v*/*.ndjson")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d golden logs, %v", len(files), err)
	}
	tried := make(map[schemas.EventType]bool)
	for _, file := range files {
		log := goldenLog(t, file)
		for i, ev := range log {
			if tried[ev.Type()] {
				continue
			}
			tried[ev.Type()] = true
			for _, raw := range withoutMembers(t, ev.Data) {
				data, err := schemas.DecodeEventData(ev.Type(), raw)
				if err != nil {
					continue
				}
				forged := slices.Clone(log)
				forged[i].Data = data
				foldAll(t, forged, raw)
			}
		}
	}
}

// withoutMembers returns JSON of an event without each of its members, at any depth, and with null for it.
func withoutMembers(t *testing.T, data schemas.EventData) (forged [][]byte) {
	t.Helper()
	raw, err := schemas.Marshal(data)
	var whole any
	if err == nil {
		err = json.Unmarshal(raw, &whole)
	}
	if err != nil {
		t.Fatal(err)
	}
	note := func() {
		raw, err := json.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		forged = append(forged, raw)
	}
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				member := v[name]
				delete(v, name)
				note()
				v[name] = nil
				note()
				v[name] = member
				visit(member)
			}
		case []any:
			for i, element := range v {
				v[i] = nil
				note()
				v[i] = element
				visit(element)
			}
		}
	}
	visit(whole)
	return forged
}

// foldAll folds a log as far as it goes, and asks for what readers and the driver ask for.
func foldAll(t *testing.T, log []schemas.Event, forged []byte) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%v, with an event with the data %s", p, forged)
		}
	}()
	e, s, tree := new(index.Entry), new(loop.State), view.NewTree("", "")
	for _, ev := range log {
		if s.Apply(ev) != nil {
			return
		}
		e.Apply(ev)
		tree.Apply(ev)
		loop.Next(s)
	}
	view.Of(s).State()
	s.ContextUsage()
}
