package eventstore_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// Golden logs are what older versions have written, and are never rewritten: -update only adds what is missing. A file
// has a head, one line for each message as it was stored, and one for the snapshot, if there is one. Beside it, for
// each version of the fold, is the hash of the state that the log folds to.
var update = flag.Bool("update", false, "write the golden logs that do not exist yet")

// goldenVersion is the folder that new golden logs go to.
const goldenVersion = "v2"

type goldenHead struct {
	Session string `json:"session"`
	About   string `json:"about"`
	Fault   string `json:"fault,omitempty"` // what verifying has to say, of a damaged one
}

// goldenLine is a line after the head: a message, its payload as text, or a snapshot.
type goldenLine struct {
	Stream   uint64              `json:"stream,omitempty"`
	Header   map[string][]string `json:"header,omitempty"`
	Payload  string              `json:"payload,omitempty"`
	Version  int                 `json:"foldVersion,omitempty"`
	Snapshot []byte              `json:"snapshot,omitempty"`
}

// goldenLog is a file.
type goldenLog struct {
	goldenHead
	path     string
	messages []eventstore.Stored
	version  int // of the snapshot
	snapshot []byte
}

// goldenLogs reads the files of all versions in a folder of theirs.
func goldenLogs(t *testing.T, folder string) (logs []goldenLog) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "golden", "*", folder, "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		logs = append(logs, readGolden(t, path))
	}
	if len(logs) == 0 {
		t.Fatal("no golden logs")
	}
	return logs
}

func readGolden(t *testing.T, path string) goldenLog {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	g := goldenLog{path: path}
	for i, line := range bytes.Split(bytes.TrimSpace(raw), []byte("\n")) {
		var l goldenLine
		into := any(&l)
		if i == 0 {
			into = &g.goldenHead
		}
		if err := json.Unmarshal(line, into); err != nil {
			t.Fatalf("%s, line %d: %v", path, i+1, err)
		}
		switch {
		case i == 0:
		case l.Snapshot != nil:
			g.version, g.snapshot = l.Version, l.Snapshot
		default:
			g.messages = append(g.messages, eventstore.Stored{Stream: l.Stream, Header: l.Header, Payload: []byte(l.Payload)})
		}
	}
	return g
}

// restore returns a store with the log and its snapshot.
func (g goldenLog) restore() *eventstore.Memory {
	m := eventstore.NewMemory()
	m.Restore(g.Session, g.messages, g.version, g.snapshot)
	return m
}

// prefixes returns the log as it was after each of its events. Where that is in the middle of a commit, its last
// commit is one of the events up to there. The snapshot, which is of an event that most do not have, stays with the
// whole.
func (g goldenLog) prefixes(t *testing.T) (all []goldenLog) {
	t.Helper()
	with := func(messages ...eventstore.Stored) {
		p := g
		p.messages, p.version, p.snapshot = messages, 0, nil
		all = append(all, p)
	}
	with()
	for i, m := range g.messages {
		events, err := schemas.DecodeLog(g.Session, m.Header, m.Payload, nil)
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n < len(events); n++ {
			header, payload, err := schemas.EncodeCommit(events[:n]...)
			if err != nil {
				t.Fatal(err)
			}
			header[jetstream.ExpectedLastSubjSeqHeader] = m.Header[jetstream.ExpectedLastSubjSeqHeader]
			with(append(slices.Clip(g.messages[:i]), eventstore.Stored{Stream: m.Stream, Header: header, Payload: payload})...)
		}
		with(slices.Clip(g.messages[:i+1])...)
	}
	all[len(all)-1] = g
	return all
}

// name is that of the file, for people.
func (g goldenLog) name() string {
	return strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(g.path), "testdata/golden/"), ".ndjson")
}

func (g goldenLog) encode(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	lines := []any{g.goldenHead}
	for _, m := range g.messages {
		lines = append(lines, goldenLine{Stream: m.Stream, Header: m.Header, Payload: string(m.Payload)})
	}
	if g.snapshot != nil {
		lines = append(lines, goldenLine{Version: g.version, Snapshot: g.snapshot})
	}
	for _, l := range lines {
		if err := out.Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// add writes a file, unless it exists.
func add(t *testing.T, path string, data []byte) {
	t.Helper()
	_, err := os.Stat(path)
	if err == nil {
		return
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("added %s", path)
}
