package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
)

type attempt struct {
	tool string
	args map[string]any
}

// scriptOf has a model make all calls at once, and end.
func scriptOf(t *testing.T, calls ...attempt) string {
	t.Helper()
	var list []any
	for _, c := range calls {
		list = append(list, map[string]any{"name": c.tool, "arguments": c.args})
	}
	script, err := json.Marshal([]any{map[string]any{"toolCalls": list}, map[string]any{"text": "done"}})
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "script.json", string(script))
}

// results are the texts of a run's results that are errors, and of the others, as they came.
func results(t *testing.T, events string) (denied, shown []string) {
	t.Helper()
	for line := range strings.Lines(events) {
		var e struct {
			Type string
			Data schemas.ToolExecutionEnd
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		switch text := e.Data.Result.Content.JoinText(); {
		case !strings.Contains(e.Type, "tool_execution_end"):
		case e.Data.IsError:
			denied = append(denied, text)
		default:
			shown = append(shown, text)
		}
	}
	return denied, shown
}

// The default store lies in the default root. What a model reads, looks for or writes there is refused.
func TestModelsDoNotGetToTheStore(t *testing.T) {
	t.Parallel()
	const logs = "loopbus-data/jetstream/$G/streams/AGENT_EVT/msgs/1.blk"
	denied := []attempt{
		{"read", map[string]any{"path": "loopbus-data/http-token"}},
		{"read", map[string]any{"path": logs}},
		{"write", map[string]any{"path": logs, "content": "gone"}},
		{"write", map[string]any{"path": "loopbus-data/http-token", "content": "chosen-by-the-model"}},
		{"edit", map[string]any{"path": "loopbus-data/http-token", "edits": []any{
			map[string]any{"oldText": "A", "newText": "B"}}}},
		{"grep", map[string]any{"pattern": ".", "path": "loopbus-data"}},
		{"find", map[string]any{"pattern": "*", "path": "loopbus-data"}},
		{"ls", map[string]any{"path": "loopbus-data"}},
		{"write", map[string]any{"path": schemas.StoreMark, "content": ""}},
	}
	script := scriptOf(t, append(denied, attempt{"grep", map[string]any{"pattern": "."}},
		attempt{"find", map[string]any{"pattern": "**/*"}}, attempt{"ls", map[string]any{}})...)
	p := startServing(t, "--model", "scripted", "--script", script, "--approve", "bash").ready()
	_, token := p.link()
	run := start(t, nil, "run", "go", "--nats", p.logged("runner starts", "nats"), "--json").wantExit(0)
	refused, shown := results(t, run.stdout.String())
	for _, text := range refused {
		if !strings.Contains(text, "Access denied: "+p.cmd.Dir) {
			t.Errorf("refused with %q", text)
		}
	}
	if len(refused) != len(denied) {
		t.Errorf("%d calls were refused, want %d:\n%q", len(refused), len(denied), refused)
	}
	slices.Sort(shown)
	want := []string{"No matches found", "loopbus-data/", "loopbus-data/"}
	if d := cmp.Diff(want, shown); d != "" {
		t.Errorf("what is seen (-want +got):\n%s", d)
	}
	kept, err := os.ReadFile(filepath.Join(p.cmd.Dir, "loopbus-data", tokenFile))
	if err != nil || strings.TrimSpace(string(kept)) != token {
		t.Errorf("the token's file has %q, %v", kept, err)
	}
	if data, err := os.ReadFile(filepath.Join(p.cmd.Dir, logs)); err != nil || len(data) < 100 {
		t.Errorf("the log has %q, %v", data, err)
	}
}

// Files that the settings name, and the one that the runner's output goes to, are not for the tools.
func TestModelsDoNotGetToFilesOfTheSettings(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	files := map[string]string{"keys.json": `{"openai":"` + secret + `"}`, "conf.yaml": "max-turns: 9\n",
		"models.json": `{"providers":{}}`, "key.sh": "#!/bin/sh\n", "my.creds": "secret"}
	var calls []attempt
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, attempt{"read", map[string]any{"path": name}},
			attempt{"write", map[string]any{"path": name, "content": "gone"}})
	}
	calls = append(calls, attempt{"grep", map[string]any{"pattern": "."}})
	at := func(name string) string { return filepath.Join(root, name) }
	p := start(t, nil, "run", "go", "--json", "--root", root, "--keys", at("keys.json"), "--config", at("conf.yaml"),
		"--models", at("models.json"), "--key-command", "sh "+at("key.sh"), "--creds", at("my.creds"), "--model", "scripted",
		"--script", scriptOf(t, calls...)).wantExit(0)
	refused, shown := results(t, p.stdout.String())
	if len(refused) != 2*len(files) || !strings.Contains(strings.Join(refused, ""), "Access denied: "+at("keys.json")) {
		t.Errorf("%d calls were refused, want %d: %q", len(refused), 2*len(files), refused)
	}
	if d := cmp.Diff([]string{"No matches found"}, shown); d != "" {
		t.Errorf("what is seen (-want +got):\n%s", d)
	}
	for name, content := range files {
		if data, err := os.ReadFile(at(name)); err != nil || string(data) != content {
			t.Errorf("%s has %q, %v", name, data, err)
		}
	}
}

// A token that somebody else could have put into the directory before it was a store is not the console's.
func TestPlantedTokensAreReplaced(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]os.FileMode{"the runner's": 0o600, "readable": 0o644} {
		store := t.TempDir()
		const planted = "planted0123456789planted0123456789"
		file := filepath.Join(store, tokenFile)
		if err := os.WriteFile(file, []byte(planted), mode); err != nil {
			t.Fatal(err)
		}
		_, token := startServing(t, "--model", "rehearsal", "--store", store).ready().link()
		kept, err := os.ReadFile(file)
		info, _ := os.Stat(file)
		if (token == planted) != (mode == 0o600) || err != nil || strings.TrimSpace(string(kept)) != token ||
			info.Mode().Perm() != 0o600 {
			t.Errorf("%s: token %s, the file has %q %v, %v", name, token, kept, info.Mode(), err)
		}
	}
}
