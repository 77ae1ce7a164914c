package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/cmd/internal/cli"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

var hashes = regexp.MustCompile(`[0-9a-f]{64}`)

func TestOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agentSession()
	w.serviceSession()
	for _, c := range []struct {
		name string
		args []string
	}{
		{"list", []string{"list"}},
		{"list-json", []string{"list", "--json"}},
		{"show", []string{"show", "agent"}},
		{"show-events", []string{"show", "service", "--events"}},
		{"show-full", []string{"--full", "show", "service"}},
		{"show-lines", []string{"show", "--lines", "2", "agent"}},
		{"show-at", []string{"show", "agent", "--at", "9"}},
		{"show-json", []string{"show", "agent", "--json", "--at", "3"}},
		{"state", []string{"state", "service"}},
		{"state-at-time", []string{"state", "service", "--at", "2026-02-03T04:05:11.5Z"}},
		{"verify", []string{"verify"}},
		{"verify-json", []string{"verify", "--json", "agent"}},
		{"export-commits", []string{"export", "service"}},
		{"help", []string{"help"}},
		{"help-show", []string{"help", "show"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := *w
			w.t = t
			got := w.replay(c.args...)
			if got.code != cli.StatusOK || got.stderr != "" {
				t.Errorf("exit status %d, stderr %s", got.code, got.stderr)
			}
			if strings.HasPrefix(c.name, "verify") { // the in-memory agent makes random nonces
				got.stdout = hashes.ReplaceAllString(got.stdout, "HASH")
			}
			golden(t, c.name, got.stdout)
		})
	}
}
