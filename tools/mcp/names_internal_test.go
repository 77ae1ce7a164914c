package mcp

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
)

func TestToolNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 80)
	tools := []string{"do it", "do.it", "do_it", "do_it_2", "plain", long, long + "x", "über"}
	want := map[string]string{
		"do_it": "s_do_it", "do_it_2": "s_do_it_2", "plain": "s_plain", "do it": "s_do_it_3", "do.it": "s_do_it_4",
		"über": "s__ber",
	}
	for range 20 { // the order makes no difference
		slices.Reverse(tools)
		tools = append(tools[3:], tools[:3]...)
		got := toolNames("s", tools)
		seen := map[string]bool{}
		for tool, name := range got {
			if err := schemas.CheckToken("tool", name); err != nil || seen[name] {
				t.Errorf("%s: %s, %v", tool, name, err)
			}
			seen[name] = true
		}
		if got[long] == got[long+"x"] || len(got[long]) != 64 {
			t.Errorf("long names: %s, %s", got[long], got[long+"x"])
		}
		delete(got, long)
		delete(got, long+"x")
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	}
}

// No tool of a server is named like one of the runner's own.
func TestTheRunnersNamesAreKept(t *testing.T) {
	t.Parallel()
	for _, own := range schemas.ExtensionTools() {
		server, tool, _ := strings.Cut(own, "_")
		if name := toolNames(server, []string{tool})[tool]; slices.Contains(schemas.ExtensionTools(), name) {
			t.Errorf("%s of the server %s is named %s", tool, server, name)
		}
	}
}
