package sessionfile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/sessionfile"
)

// TestLabelsThatComeAndGo checks that the cost of removing labels is linear, because a file may come from an untrusted
// source, and that a target that gets a label again moves to the end of the order.
func TestLabelsThatComeAndGo(t *testing.T) {
	const n = 30_000
	lines := []string{`{"type":"session","version":3,"id":"s"}`}
	for i := range n {
		lines = append(lines, fmt.Sprintf(`{"type":"label","id":"l%d","targetId":"a%d","label":"x"}`, i, i))
	}
	for i := n - 1; i >= 0; i-- {
		lines = append(lines, fmt.Sprintf(`{"type":"label","id":"m%d","targetId":"a%d"}`, i, i))
	}
	lines = append(lines, `{"type":"label","id":"n1","targetId":"a1","label":"y"}`,
		`{"type":"label","id":"n0","targetId":"a0","label":"z"}`)
	entries, problems := sessionfile.Parse([]byte(strings.Join(lines, "\n")))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	begun := time.Now()
	s := sessionfile.FromEntries(entries)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	if got := s.Labels(); len(got) != 2 || got[0].Target != "a1" || got[1].Target != "a0" || got[1].Label != "z" {
		t.Errorf("%+v", got)
	}
}
