package tools_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/ls"
	"github.com/loopbus/loopbus/tools/read"
	"github.com/loopbus/loopbus/tools/workspace"
)

// casesDir names a further directory of cases to play.
const casesDir = "LOOPBUS_TOOL_CASES"

// The recorded behaviour of the built-in tools. The format is that of the recordings; cases of tools that do not exist
// here are left out. testdata/DEVIATIONS.md lists what is meant to differ.
func TestConformance(t *testing.T) {
	dirs := []string{filepath.Join("testdata", "conformance")}
	if dir := os.Getenv(casesDir); dir != "" {
		dirs = append(dirs, dir)
	}
	played := 0
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no cases in %s: %v", dir, err)
		}
		for _, file := range files {
			c := loadCase(t, file)
			if c == nil {
				continue
			}
			played++
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				c.play(t)
			})
		}
	}
	if played == 0 {
		t.Fatal("no case played")
	}
}

var existing = []string{read.Name, ls.Name, bash.Name}

// loadCase returns nil if the case needs a tool that does not exist.
func loadCase(t *testing.T, file string) *testCase {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := new(testCase)
	if err := json.Unmarshal(data, c); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if c.Calls == nil {
		c.Calls = []testCall{{Args: c.Args}}
	}
	for i := range c.Calls {
		if c.Calls[i].Tool == "" {
			c.Calls[i].Tool = c.Tool
		}
		if !slices.Contains(existing, c.Calls[i].Tool) {
			return nil
		}
	}
	return c
}

// play runs the case and compares what is recorded with what happened, as JSON values.
func (c *testCase) play(t *testing.T) {
	stage := newStage(t, c)
	before := stage.tree(t)
	outcomes := c.run(t, stage)
	if c.WaitMs > 0 {
		stage.wait(c.WaitMs)
	}
	want := expectation{Changed: map[string]any{}}
	if err := json.Unmarshal(c.Expected, &want); err != nil {
		t.Fatal(err)
	}
	got := expectation{Changed: changes(before, stage.tree(t), stage), Spills: stage.spills(t)}
	for i, o := range outcomes {
		got.Results = append(got.Results, c.recorded(t, stage, o, i, want))
	}
	if d := cmp.Diff(normalised(t, want), normalised(t, got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", c.Why, d)
	}
}

// toolbox makes the tools of a case, confined to its root and its home.
func toolbox(t *testing.T, s *stage, cwd string) map[string]tools.Tool {
	t.Helper()
	w, err := workspace.Open(workspace.Options{
		Root: s.root, Dir: cwd, Home: s.home, Also: []string{s.home},
		Files: []string{bash.SpillPattern(s.temp)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	box := map[string]tools.Tool{}
	for _, tool := range []tools.Tool{
		read.New(read.Options{Workspace: w}),
		ls.New(w),
		bash.New(bash.Options{Workspace: w, TempDir: s.temp, Environ: []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "TMPDIR=" + s.temp, "LC_ALL=C.UTF-8",
		}}),
	} {
		box[tool.Name] = tool
	}
	return box
}

type outcome struct {
	result  schemas.ToolResult
	isError bool
	updates []schemas.ToolResult
}
