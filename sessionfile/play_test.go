package sessionfile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/sessionfile"
)

// play plays the case and reports the difference from the recording.
func (c *sessionCase) play(t *testing.T) {
	t.Helper()
	if d := c.difference(t); d != "" {
		t.Errorf("%s (-want +got):\n%s", c.Why, d)
	}
}

// difference plays the case and returns the difference from the recording, or "".
func (c *sessionCase) difference(t *testing.T) string {
	t.Helper()
	n := &normaliser{dir: t.TempDir()}
	var got any
	if c.Kind == "session" {
		if c.Refused {
			return c.refused(t, n.dir)
		}
		got = c.session(t, n)
	} else {
		got = c.call(t, n)
	}
	var want any
	if err := json.Unmarshal(c.Expected, &want); err != nil {
		t.Fatal(err)
	}
	return cmp.Diff(want, n.normal(t, got))
}

// refused opens a file without a session, which must be refused and stay unchanged.
func (c *sessionCase) refused(t *testing.T, dir string) string {
	t.Helper()
	path, text := filepath.Join(dir, "in.jsonl"), c.fileText(t)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := sessionfile.Open(path, nil)
	if !errors.Is(err, sessionfile.ErrNoSession) {
		return "opened: " + cmp.Diff(sessionfile.ErrNoSession, err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return cmp.Diff(string(text), string(after))
}

func (c *sessionCase) fileText(t *testing.T) []byte {
	t.Helper()
	return linesText(t, c.Lines, !c.NoFinalNewline)
}

// linesText joins lines: strings unchanged, anything else as JSON.
func linesText(t *testing.T, lines []json.RawMessage, end bool) []byte {
	t.Helper()
	var texts []string
	for _, raw := range lines {
		var text string
		if json.Unmarshal(raw, &text) != nil || string(raw) == "null" {
			var one bytes.Buffer
			if err := json.Compact(&one, raw); err != nil {
				t.Fatal(err)
			}
			text = one.String()
		}
		texts = append(texts, text)
	}
	text := strings.Join(texts, "\n")
	if end && len(texts) > 0 {
		text += "\n"
	}
	return []byte(text)
}

// A stage is a session on which the steps of a case are played.
type stage struct {
	c     *sessionCase
	n     *normaliser
	s     *sessionfile.Session
	clock time.Time
	known map[string]bool // ids of the input, and those generated so far
}

func (c *sessionCase) session(t *testing.T, n *normaliser) any {
	t.Helper()
	st := &stage{c: c, n: n, clock: clockStart, known: map[string]bool{}}
	if c.Lines == nil {
		dir := n.dir
		if c.Memory {
			dir = ""
		}
		st.s = sessionfile.New(sessionfile.Options{CWD: "/project", Dir: dir, Now: st.now})
	} else {
		path := filepath.Join(n.dir, "in.jsonl")
		text := bytes.ReplaceAll(c.fileText(t), []byte("{{DIR}}"), []byte(n.dir))
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		given, _ := sessionfile.Parse(text)
		for _, e := range given {
			st.known[e.ID] = true
		}
		var err error
		if st.s, err = sessionfile.Open(path, st.now); err != nil {
			t.Fatal(err)
		}
	}
	st.note()
	results := []any{}
	for _, given := range c.Steps {
		result, err := st.do(t, given.with(t, n))
		if err != nil {
			result = map[string]any{"error": err.Error()}
		}
		st.note()
		results = append(results, n.normal(t, result))
	}
	return results
}

// now is a clock that advances by a millisecond at each call.
func (st *stage) now() time.Time {
	st.clock = st.clock.Add(time.Millisecond)
	return st.clock
}

// note numbers the entries that were made since its last call.
func (st *stage) note() {
	for _, e := range st.s.Entries() {
		if !st.known[e.ID] {
			st.known[e.ID] = true
			st.n.made(e.ID)
		}
	}
}

// A step is one step of a case.
type step struct {
	raw json.RawMessage

	Do, ID, Position                              string
	Leaf                                          json.RawMessage
	Message, Details, Data, Content               json.RawMessage
	Level, Provider, ModelID, Summary, CustomType string
	FirstKeptEntryID, Name, CWD                   string
	TokensBefore                                  int64
	FromHook                                      *bool
	Display                                       bool
	Label                                         *string
	Options                                       struct{ ID, ParentSession string }
	Summarize, ReplaceInstructions                bool
	CustomInstructions                            string
	Replies                                       []caseReply
}

// UnmarshalJSON keeps the text, because ids in it are known only when the step is played.
func (s *step) UnmarshalJSON(raw []byte) error {
	s.raw = bytes.Clone(raw)
	return nil
}

// with returns the step with the ids that are known.
func (s step) with(t *testing.T, n *normaliser) step {
	t.Helper()
	type plain step
	var p plain
	if err := json.Unmarshal([]byte(n.given(string(s.raw))), &p); err != nil {
		t.Fatal(err)
	}
	return step(p)
}
