package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBigEventsAreShownWhole has a reply that does not fit into a message of the bus: viewers fetch it from the log.
func TestBigEventsAreShownWhole(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 300_000)
	script, err := json.Marshal([]map[string]string{{"text": text}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(file, script, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, form := range [][]string{nil, {"--json"}} {
		var shown, logged bytes.Buffer
		args := append([]string{"--prompt", "hi", "--model", "scripted", "--script", file, "--root", t.TempDir()}, form...)
		if err := run(t.Context(), args, func(string) string { return "" }, &shown, &logged); err != nil {
			t.Fatalf("%v: %v\n%s", form, err, logged.String())
		}
		if !strings.Contains(shown.String(), text) {
			t.Errorf("%v: the reply was not shown whole", form)
		}
	}
}
