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

// Golden messages are messages that earlier versions, their clients and their workers have sent. They are never
// rewritten: -update only adds missing ones.
var update = flag.Bool("update", false, "add the golden messages that do not exist yet")

// goldenVersion is the folder that new golden messages go to.
const goldenVersion = "v1"

// goldenMessage is a line of a file.
type goldenMessage struct {
	About   string          `json:"about"`
	Subject string          `json:"subject,omitempty"` // an announcement has none: it is the value of a key
	Header  nats.Header     `json:"header,omitempty"`
	Payload string          `json:"payload"`
	Means   json.RawMessage `json:"means"` // the decoded message as JSON
}

// goldenTime is the time of the messages that do not contain a time.
var goldenTime = time.Date(2026, 2, 3, 4, 5, 6, 789e6, time.UTC)

// decode decodes the message as its receiver does.
func (m goldenMessage) decode() (any, error) {
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
	v, err := m.decode()
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

// rejectedNow contains forms of earlier clients that a NATS server could have sent too (docs/protocol.md). They are
// rejected, with a text that tells the client what to send.
var rejectedNow = map[string]string{
	"abort, empty":    "send {} or the header Loopbus-Command: abort",
	"continue, empty": "send {} or the header Loopbus-Command: continue",
	"deny, JSON":      "missing properties: 'call'",
}

// Messages of earlier versions decode to the recorded values, or are rejected for the reason in rejectedNow.
func TestGoldenMessages(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "golden", "*", "*.ndjson"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden messages: %v", err)
	}
	for _, path := range paths {
		for _, m := range readGolden(t, path) {
			if text := rejectedNow[m.About]; text != "" {
				if _, err := m.decode(); err == nil || !strings.Contains(err.Error(), text) {
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
		v, err := m.decode()
		if err != nil {
			continue // [TestGoldenMessages] checks the reason
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

// Every message of wireMessages is in the golden file. -update adds missing ones.
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
		if rejectedNow[m.About] != "" {
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
