package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The seven tools over the bus, with arguments under the names that models know from other tools.
func TestOneShotUsesAllTools(t *testing.T) {
	t.Parallel()
	script := write(t, "script.json", `[
		{"toolCalls":[{"name":"write","arguments":{"file_path":"d/a.txt","content":"one\ntwo\n"}}]},
		{"toolCalls":[{"name":"edit","arguments":{"file_path":"d/a.txt","old_string":"two","new_string":"three"}}]},
		{"toolCalls":[{"name":"edit","arguments":{"path":"d/a.txt","edits":"[{\"old_text\":\"one\",\"new_text\":\"1\"}]"}}]},
		{"toolCalls":[{"name":"read","arguments":{"file_path":"d/a.txt"}},{"name":"grep","arguments":{"pattern":"thr"}},
			{"name":"find","arguments":{"pattern":"*.txt"}},{"name":"ls","arguments":{}},
			{"name":"bash","arguments":{"command":"wc -l <d/a.txt"}}]},
		{"text":"done"}]`)
	p := start(t, nil, "--model", "scripted", "--script", script, "--prompt", "go").wantExit(0)
	for _, want := range []string{
		"Successfully wrote 8 bytes to d/a.txt", "Successfully replaced 1 block(s) in d/a.txt.",
		"  | 1\n  | three\n", "d/a.txt:2: three", "  | d/a.txt\n", "  | d/\n", "  | 2\n",
	} {
		if !strings.Contains(p.stdout.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, p.stdout.String())
		}
	}
	if got, err := os.ReadFile(filepath.Join(p.cmd.Dir, "d/a.txt")); err != nil || string(got) != "1\nthree\n" {
		t.Errorf("the file has %q, %v", got, err)
	}
}
