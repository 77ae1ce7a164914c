package codec_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/schemas"
)

// Golden messages are what older versions, their clients and their workers have sent. They are never rewritten: -update
// only adds those that are missing.
var update = flag.Bool("update", false, "add the golden messages that do not exist yet")

// goldenVersion is the folder that new golden messages go to.
const goldenVersion = "v1"

// goldenMessage is a line of a file.
type goldenMessage struct {
	About   string          `json:"about"`
	Subject string          `json:"subject,omitempty"` // an announcement has none: it is the value of a key
	Header  nats.Header     `json:"header,omitempty"`
	Payload string          `json:"payload"`
	Means   json.RawMessage `json:"means"` // what reading it gives
}

// goldenTime is when the messages came, where they do not say it themselves.
var goldenTime = time.Date(2026, 2, 3, 4, 5, 6, 789e6, time.UTC)

// read reads the message as the part of the system does that it is for.
func (m goldenMessage) read() (any, error) {
	var subjects schemas.Subjects
	if session, kind, err := subjects.ParseCommand(m.Subject); err == nil {
		return codec.DecodeCommand(session, kind, m.Header, []byte(m.Payload), "cmd-17", goldenTime)
	}
	if _, _, _, err := subjects.ParseTool(m.Subject); err == nil {
		return schemas.ParseToolRequest([]byte(m.Payload))
	}
	if _, _, err := subjects.ParseLive(m.Subject); err == nil {
		return schemas.DecodeUpdate(m.Header, []byte(m.Payload))
	}
	var a schemas.ToolAnnouncement
	if err := schemas.ValidateToolAnnouncement([]byte(m.Payload)); err != nil {
		return a, err
	}
	return a, json.Unmarshal([]byte(m.Payload), &a)
}

func (m goldenMessage) meaning(t *testing.T) json.RawMessage {
	t.Helper()
	v, err := m.read()
	if err != nil {
		t.Fatalf("%s: %v", m.About, err)
	}
	raw, err := schemas.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func readGolden(t *testing.T, path string) (messages []goldenMessage) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var m goldenMessage
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%s: %v\n%s", path, err, line)
		}
		messages = append(messages, m)
	}
	return messages
}

// refusedNow are forms of older clients that say too little: a NATS server could have sent them (docs/protocol.md).
// They are refused with a text that says what to send.
var refusedNow = map[string]string{
	"abort, empty":    "send {} or the header Loopbus-Command: abort",
	"continue, empty": "send {} or the header Loopbus-Command: continue",
	"deny, JSON":      "missing properties: 'call'",
}

// What older versions have sent is read, and means what it meant, or is refused for a reason of its own.
func TestGoldenMessages(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "golden", "*", "*.ndjson"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden messages: %v", err)
	}
	for _, path := range paths {
		for _, m := range readGolden(t, path) {
			if text := refusedNow[m.About]; text != "" {
				if _, err := m.read(); err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("%s: %s: %v does not say %q", path, m.About, err, text)
				}
				continue
			}
			if d := cmp.Diff(string(m.Means), string(m.meaning(t))); d != "" {
				t.Errorf("%s: %s (-want +got):\n%s", path, m.About, d)
			}
		}
	}
}

// Every kind of command and of update has a golden message.
func TestGoldenMessagesHaveEveryKind(t *testing.T) {
	missing := map[string]bool{}
	for _, n := range schemas.SchemaNames() {
		if n.Area == "commands" || n.Area == "updates" {
			missing[n.Name] = true
		}
	}
	for _, m := range readGolden(t, filepath.Join("testdata", "golden", goldenVersion, "wire.ndjson")) {
		v, err := m.read()
		if err != nil {
			continue // [TestGoldenMessages] says why
		}
		switch v := v.(type) {
		case schemas.Command:
			delete(missing, string(v.Data.CommandKind()))
		case schemas.Update:
			delete(missing, string(v.Data.EventType()))
		}
	}
	if len(missing) > 0 {
		t.Errorf("no golden message of %v", missing)
	}
}

// TestGoldenMessagesAreAdded wants the file to have every message, and adds, with -update, those that it does not have.
func TestGoldenMessagesAreAdded(t *testing.T) {
	path := filepath.Join("testdata", "golden", goldenVersion, "wire.ndjson")
	file, err := os.OpenFile(path, os.O_APPEND|os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	have := readGolden(t, path)
	for _, m := range wireMessages(t) {
		if slices.ContainsFunc(have, func(old goldenMessage) bool { return old.About == m.About }) {
			continue
		}
		if refusedNow[m.About] != "" {
			continue
		}
		if !*update {
			t.Errorf("%s has no %q: -update adds it", path, m.About)
			continue
		}
		m.Means = m.meaning(t)
		line, err := schemas.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write(append(line, '\n')); err != nil {
			t.Fatal(err)
		}
		t.Logf("added %s", m.About)
	}
}
