package tools_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/casetest"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/edit"
	"github.com/loopbus/loopbus/tools/find"
	"github.com/loopbus/loopbus/tools/grep"
	"github.com/loopbus/loopbus/tools/ls"
	"github.com/loopbus/loopbus/tools/read"
	"github.com/loopbus/loopbus/tools/workspace"
	"github.com/loopbus/loopbus/tools/write"
)

// casesDir names a further directory of cases to play.
const casesDir = "LOOPBUS_TOOL_CASES"

func TestMain(m *testing.M) {
	bash.RunHelper() // as programs that serve the tools begin
	os.Exit(m.Run())
}

// The recorded behaviour of the built-in tools. The format is that of the recordings. What is meant to differ is listed
// in testdata/DEVIATIONS.md, and left out here.
func TestConformance(t *testing.T) {
	t.Parallel()
	playAll(t, filepath.Join("testdata", "conformance"))
}

// Cases that are not part of the repository.
func TestFurtherCases(t *testing.T) {
	t.Parallel()
	playAll(t, casetest.Further(t, casesDir))
}

func playAll(t *testing.T, dir string) {
	t.Helper()
	deviations := casetest.Deviating(t)
	for _, c := range loadCases(t, dir) {
		if deviations[c.number()] {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.play(t)
		})
	}
}

// Lines that come in any order are sorted while the text is whole: its hash depends on them.
func TestOrderOfALongText(t *testing.T) {
	t.Parallel()
	var lines []string
	for n := range 300 {
		lines = append(lines, fmt.Sprintf("line-%d", n))
	}
	backwards := slices.Clone(lines)
	slices.Reverse(backwards)
	c := &testCase{Order: "any"}
	record := func(lines []string) any {
		text := strings.Join(lines, "\n") + "\n\n[300 results]"
		return c.recorded(t, newStage(t, c), outcome{result: schemas.TextResult(text)}, 0, expectation{})
	}
	if d := cmp.Diff(record(lines), record(backwards)); d != "" {
		t.Errorf("(-in order +backwards):\n%s", d)
	}
}

// The cases that are meant to differ, with the outcome that is better.
func TestDeviations(t *testing.T) {
	t.Parallel()
	left := casetest.Deviating(t)
	if len(left) == 0 || len(left) > 30 {
		t.Errorf("%d cases deviate", len(left))
	}
	for _, c := range loadCases(t, filepath.Join("testdata", "deviations")) {
		if !left[c.number()] {
			t.Errorf("%s is not listed, or twice there", c.Name)
		}
		delete(left, c.number())
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.play(t)
		})
	}
	for number := range left {
		t.Errorf("%s is listed and has no better outcome", number)
	}
}

// number is what a case's name begins with.
func (c *testCase) number() string { return c.Name[:3] }

func loadCases(t *testing.T, dir string) []*testCase {
	t.Helper()
	return casetest.Load(t, dir, func(data []byte) (*testCase, error) {
		c := new(testCase)
		if err := json.Unmarshal(data, c); err != nil {
			return nil, err
		}
		if c.Calls == nil {
			c.Calls = []testCall{{Args: c.Args}}
		}
		for i := range c.Calls {
			if c.Calls[i].Tool == "" {
				c.Calls[i].Tool = c.Tool
			}
		}
		return c, nil
	})
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
func toolbox(t *testing.T, s *stage, cwd string) (box map[string]tools.Tool, w *workspace.Workspace) {
	t.Helper()
	w, err := workspace.Open(workspace.Options{
		Root: s.root, Dir: cwd, Home: s.home, Also: []string{s.home},
		Files: []string{bash.SpillPattern(s.temp)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return allTools(w, s.temp, []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "TMPDIR=" + s.temp, "LC_ALL=C.UTF-8",
	}), w
}

// allTools are the seven.
func allTools(w *workspace.Workspace, temp string, environ []string) map[string]tools.Tool {
	box := map[string]tools.Tool{}
	for _, tool := range []tools.Tool{
		read.New(read.Options{Workspace: w}), write.New(w), edit.New(w), grep.New(w), find.New(w), ls.New(w),
		bash.New(bash.Options{Workspace: w, TempDir: temp, Environ: environ}),
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
