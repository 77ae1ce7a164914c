package pifile_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/cmd/replay/internal/pifile"
	"github.com/loopbus/loopbus/schemas"
)

// head is the header of a file.
const head = `{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}`

// entry is a line of a file with a user's message.
func entry(id, parent string) string {
	at, said := "null", "said in "+id
	if parent != "" {
		at = fmt.Sprintf("%q", parent)
	}
	return fmt.Sprintf(`{"type":"message","id":%q,"parentId":%s,"timestamp":"2026-01-01T00:00:00.000Z",`+
		`"message":{"role":"user","content":%q,"timestamp":1}}`, id, at, said)
}

// A long way with many leaves at its end would be written once for each leaf.
func TestBranchesCostWhatTheFileCosts(t *testing.T) {
	t.Parallel()
	way := func(entries, leaves int) []byte {
		lines := []string{head}
		parent := ""
		for i := range entries {
			id := fmt.Sprintf("a%d", i)
			lines, parent = append(lines, entry(id, parent)), id
		}
		for i := range leaves {
			lines = append(lines, entry(fmt.Sprintf("b%d", i), parent))
		}
		return []byte(strings.Join(lines, "\n"))
	}
	if _, err := pifile.Import(way(100, 20)); err != nil {
		t.Errorf("twenty branches: %v", err)
	}
	_, err := pifile.Import(way(1500, 1500))
	if err == nil || !strings.Contains(err.Error(), "branches") {
		t.Errorf("a file of %d bytes that comes to hundreds of millions: %v", len(way(1500, 1500)), err)
	}
}

// Any client can send a custom entry. Only an import, which begins a log, has lines of a file.
func TestAClientCannotRewriteAnExport(t *testing.T) {
	t.Parallel()
	forged := func(first bool) *schemas.Custom {
		data, err := json.Marshal(map[string]any{"first": first, "more": uint64(1) << 62, "lines": []json.RawMessage{
			json.RawMessage(head), json.RawMessage(entry("forged", "")),
		}})
		if err != nil {
			t.Fatal(err)
		}
		return &schemas.Custom{CustomType: "loopbus.file", Data: data}
	}
	say := func(text string) schemas.EventData {
		return &schemas.AddMessage{CustomType: "note", Content: schemas.Contents{schemas.Text{Text: text}}, Display: true}
	}
	im, err := pifile.Import([]byte(head + "\n" + entry("imported", "")))
	if err != nil {
		t.Fatal(err)
	}
	for name, begin := range map[string][]schemas.EventData{
		"a session":       {say("before it")},
		"an imported one": append(slices.Clone(im.Events), say("before it")),
	} {
		for _, first := range []bool{true, false} {
			log := newLog("s")
			log.add(t, begin...)
			log.add(t, forged(first), say("behind it"))
			out, err := pifile.Export("s", "/elsewhere", log.read())
			if err != nil {
				t.Fatal(err)
			}
			all := strings.Join(jsonLines(t, out), "\n")
			if !strings.Contains(all, "before it") || !strings.Contains(all, "behind it") ||
				out.Entry("forged") != nil || out.Entries()[len(out.Entries())-1].Text("customType") != "note" {
				t.Errorf("%s, first %v: what a client sent is part of the export:\n%s", name, first, all)
			}
		}
	}
}
