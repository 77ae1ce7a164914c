package pifile_test

import (
	"bytes"
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/cmd/replay/internal/pifile"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/sessionfile"
)

// TestARoundTripKeepsEveryEntry holds that every file of the recorded cases that is a sound session is imported and
// exported again without a change, that the state has the context that the file has, and that what comes later is
// behind it.
func TestARoundTripKeepsEveryEntry(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "sessionfile", "testdata", "conformance", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	played := 0
	for _, file := range files {
		var c struct {
			Kind  string
			Lines []json.RawMessage
		}
		read(t, file, &c)
		text := fileText(t, c.Lines)
		if _, problems := sessionfile.Check(text); c.Kind != "session" || len(problems) > 0 {
			continue
		}
		played++
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			roundTrip(t, text)
		})
	}
	if played < 25 {
		t.Errorf("%d files were imported", played)
	}
}

func roundTrip(t *testing.T, text []byte) {
	t.Helper()
	lines, problems := sessionfile.Check(text)
	im, err := pifile.Import(text)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	log := newLog(im.Session)
	log.add(t, im.Events...)
	before := sessionfile.FromEntries(lines)
	out, err := pifile.Export(im.Session, "/elsewhere", log.read())
	if err != nil {
		t.Fatal(err)
	}
	if !isVersion3(text) { // ids are made anew each time
		if got, want := len(out.Entries()), len(before.Entries()); got != want {
			t.Errorf("%d entries, want %d", got, want)
		}
	} else if d := cmp.Diff(jsonLines(t, before), jsonLines(t, out)); d != "" {
		t.Errorf("(-file +export):\n%s", d)
	}
	context := out.Context(out.Leaf())
	if d := cmp.Diff(decoded(t, context.Messages), messages(t, log.state)); d != "" {
		t.Errorf("context (-file +state):\n%s", d)
	}
	log.add(t, &schemas.AddMessage{
		CustomType: "later", Content: schemas.Contents{schemas.Text{Text: "more"}}, Display: true,
	})
	again, err := pifile.Export(im.Session, "/elsewhere", log.read())
	if err != nil {
		t.Fatal(err)
	}
	added := again.Entries()[len(again.Entries())-1]
	if len(again.Entries()) != len(out.Entries())+1 || added.Parent != out.Leaf() || again.Leaf() != added.ID {
		t.Errorf("added %s below %s, want it below %s, as the leaf", marshal(t, added), added.Parent, out.Leaf())
	}
	for _, line := range jsonLines(t, again) {
		if _, err := sessionfile.NewEntry([]byte(line)); err != nil {
			t.Error(err)
		}
	}
}

// TestWhatIsBrokenIsRefused holds that nothing of a broken file is imported and that each broken line is named.
func TestWhatIsBrokenIsRefused(t *testing.T) {
	t.Parallel()
	header := `{"type":"session","version":3,"id":"s","timestamp":"2026-01-02T03:04:05.000Z","cwd":"/p"}`
	message := func(rest string) string { return "\n" + `{"type":"message","id":"a","parentId":null` + rest + "}" }
	a := `{"type":"custom","id":"a","parentId":null,"timestamp":"2026-01-02T03:04:05.000Z","customType":"x"}`
	for _, c := range []struct{ name, text, want string }{
		{"no header", a, "line 1: not a session file"},
		{"nothing", "", "line 1: not a session file"},
		{"not JSON", header + "\n{broken\n" + a, "line 2: not JSON"},
		{"null", header + "\nnull\n", "line 2: not a JSON object"},
		{"no id", header + "\n" + `{"type":"custom"}`, "line 2: an entry has an id"},
		{"id twice", header + "\n" + a + "\n" + a, `line 3: the id "a" is that of line 2`},
		{"circle", header + "\n" + strings.Replace(a, "null", `"a"`, 1), "line 2: its parents lead back to itself"},
		{"newer", strings.Replace(header, "3", "4", 1), "line 1: version 4 is newer than 3"},
		{"second header", header + "\n" + header, "line 2: a second header"},
		{"content", header + message(`,"message":{"role":"user","content":[{"type":"odd"}]}`),
			"line 2: user message: content 0: "},
		{"no message", header + message(""), "line 2: a message entry has a message"},
		{"no role", header + message(`,"message":{}`), "line 2: schemas: message without role"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			im, err := pifile.Import([]byte(c.text))
			if im != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v, want %q", im, err, c.want)
			}
		})
	}
}

// TestALogsTree holds how a log with branches, labels and settings is written.
func TestALogsTree(t *testing.T) {
	t.Parallel()
	log := newLog("s1")
	text := func(s string) schemas.Contents { return schemas.Contents{schemas.Text{Text: s}} }
	log.add(t,
		&schemas.TranscriptReplaced{Messages: schemas.Messages{
			&schemas.UserMessage{Content: text("q")},
			&schemas.AssistantMessage{Content: text("a"), StopReason: schemas.StopStop},
		}},
		&schemas.AddMessage{CustomType: "note", Content: text("n"), Display: true, Details: json.RawMessage(`{"d":1}`)},
		&schemas.Label{TargetID: "x1.0", Label: "start"},
		&schemas.Custom{CustomType: "state", Data: json.RawMessage(`[1]`)},
		&schemas.Leaf{TargetID: "x1.1", LeafID: "x1.1", OldLeafID: "e4", Keep: "x1.1",
			Summary: &schemas.BranchSummary{FromID: "x1.1", Summary: "noted"}},
		&schemas.Name{Name: "My work"},
		&schemas.Leaf{TargetID: "e2", LeafID: "x1.1", OldLeafID: "e5", Keep: "x1.1"},
	)
	s, err := pifile.Export("s1", "/p", log.read())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range s.Entries() {
		got = append(got, string(e.Type)+" "+e.ID+" < "+e.Parent)
	}
	want := []string{
		"message x1.0 < ", "message x1.1 < x1.0", "custom_message e2 < x1.1", "label l3 < e2", "custom e4 < l3",
		"branch_summary e5 < x1.1", "session_info n6 < e5", "custom leaf7 < x1.1",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if l := s.Label("x1.0"); l == nil || l.Label != "start" || s.Name() != "My work" {
		t.Errorf("label %v, name %q", l, s.Name())
	}
	if d := cmp.Diff(decoded(t, s.Context(s.Leaf()).Messages), messages(t, log.state)); d != "" {
		t.Errorf("context (-export +state):\n%s", d)
	}
}

// A memoryLog is a log that numbers and folds events.
type memoryLog struct {
	state  *loop.State
	events []schemas.Event
}

func newLog(session string) *memoryLog { return &memoryLog{state: &loop.State{Session: session}} }

func (l *memoryLog) add(t *testing.T, list ...schemas.EventData) {
	t.Helper()
	for _, d := range list {
		e := schemas.Event{Session: l.state.Session, Seq: l.state.Seq + 1, Data: d,
			Time: time.Date(2026, 1, 2, 3, 4, int(l.state.Seq), 0, time.UTC)}
		if err := l.state.Apply(e); err != nil {
			t.Fatal(err)
		}
		l.events = append(l.events, e)
	}
}

func (l *memoryLog) read() iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		for _, e := range l.events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func messages(t *testing.T, s *loop.State) []any {
	t.Helper()
	var raws []json.RawMessage
	for _, m := range s.Transcript() {
		raws = append(raws, marshal(t, m))
	}
	return decoded(t, raws)
}

// decoded are messages as loopbus knows them.
func decoded(t *testing.T, raws []json.RawMessage) []any {
	t.Helper()
	list := []any{}
	for _, raw := range raws {
		m, err := schemas.DecodeMessage(raw)
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		if err := json.Unmarshal(marshal(t, m), &v); err != nil {
			t.Fatal(err)
		}
		delete(v, "timestamp") // of entries made from events it is the event's
		list = append(list, v)
	}
	return list
}

func jsonLines(t *testing.T, s *sessionfile.Session) (lines []string) {
	t.Helper()
	for _, e := range append([]*sessionfile.Entry{s.Header()}, s.Entries()...) {
		var v any
		if err := json.Unmarshal(marshal(t, e), &v); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(marshal(t, v)))
	}
	return lines
}

func isVersion3(text []byte) bool {
	return bytes.Contains(text, []byte(`"version":3`)) || bytes.Contains(text, []byte(`"version":2`))
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func read(t *testing.T, file string, v any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func fileText(t *testing.T, lines []json.RawMessage) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, raw := range lines {
		if err := json.Compact(&b, raw); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}
