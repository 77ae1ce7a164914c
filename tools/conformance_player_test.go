package tools_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
)

// TestOrderComesBeforeShortening holds that a long text whose lines come in any order has one recorded form.
func TestOrderComesBeforeShortening(t *testing.T) {
	t.Parallel()
	lines := make([]string, 0, 400)
	for i := range 400 {
		lines = append(lines, fmt.Sprintf("src/%03d.txt", i))
	}
	c := &testCase{Order: "any"}
	record := func(lines []string) any {
		text := strings.Join(lines, "\n") + "\n\n[400 results]"
		return c.recorded(t, newStage(t, c), outcome{result: schemas.TextResult(text)}, 0, expectation{})
	}
	want := record(lines)
	slices.Reverse(lines)
	if d := cmp.Diff(want, record(lines)); d != "" {
		t.Errorf("the order of the lines shows (-in order +reversed):\n%s", d)
	}
	block := want.(map[string]any)["content"].([]any)[0].(map[string]any)
	if text, ok := block["text"].(map[string]any); !ok || !strings.HasPrefix(text["head"].(string), "src/000.txt\n") {
		t.Errorf("recorded as %v, want the shortened form of the sorted lines", block["text"])
	}
}
