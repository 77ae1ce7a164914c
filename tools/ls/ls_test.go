package ls_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
	"github.com/loopbus/loopbus/tools/ls"
)

func setUp(t *testing.T, names ...string) (tool tools.Tool, root string) {
	t.Helper()
	rig := tooltest.New(t)
	for _, name := range names {
		rig.Put(name, "")
	}
	return ls.New(rig.Workspace), rig.Root
}

func run(t *testing.T, tool tools.Tool, args string) (string, bool) {
	t.Helper()
	result, isError := tool.Run(t.Context(), tools.Call{Arguments: json.RawMessage(args)}, nil)
	return result.Content.JoinText(), isError
}

// The order is that of the root collation: punctuation, digits (not as numbers), letters; accents break ties.
func TestOrder(t *testing.T) {
	want := []string{"_x", "-x", ".x", "@x", "#x", "~x", "$x", "10", "9", "a b", "a-b", "ab", "cote", "coté", "côte", "É",
		"ez", "z"}
	tool, _ := setUp(t, want...)
	if got, _ := run(t, tool, `{}`); got != strings.Join(want, "\n") {
		t.Errorf("got %q", got)
	}
}

func TestLinksThatLeadOut(t *testing.T) {
	tool, root := setUp(t, "a")
	if err := os.Symlink("/", filepath.Join(root, "out")); err != nil {
		t.Fatal(err)
	}
	if got, isError := run(t, tool, `{}`); got != "a\nout" || isError {
		t.Errorf("got %q", got)
	}
	for _, path := range []string{"out", "/", "..", "out/no/such"} {
		got, isError := run(t, tool, fmt.Sprintf(`{"path":%q}`, path))
		if !isError || !strings.HasPrefix(got, "Access denied: ") {
			t.Errorf("%s: got %q", path, got)
		}
	}
}

func TestLimits(t *testing.T) {
	tool, _ := setUp(t, "a", "b")
	for args, want := range map[string]string{
		`{"limit":2}`:  "a\nb",
		`{"limit":0}`:  "a\n\n[1 entries limit reached. Use limit=2 for more]",
		`{"limit":-7}`: "a\n\n[1 entries limit reached. Use limit=2 for more]",
	} {
		if got, _ := run(t, tool, args); got != want {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
}

func TestLongListsAreCutByBytes(t *testing.T) {
	var names []string
	for n := range 300 {
		names = append(names, fmt.Sprintf("%0200d", n))
	}
	tool, _ := setUp(t, names...)
	got, _ := run(t, tool, `{}`)
	if !strings.HasSuffix(got, "\n\n[50.0KB limit reached]") || strings.Count(got, "\n") != 51200/201+1 {
		t.Errorf("%d lines, %q", strings.Count(got, "\n"), got[len(got)-60:])
	}
}
