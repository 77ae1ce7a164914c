package labels_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/labels"
)

func TestASetIsBounded(t *testing.T) {
	t.Parallel()
	s := labels.NewSet(3, "bash")
	got := map[string]bool{}
	for i := range 1000 {
		got[s.Value(fmt.Sprintf("tool-%d", i))] = true
	}
	for _, v := range []string{strings.Repeat("x", 1000), "\xff", "tool-0", "bash", ""} {
		got[s.Value(v)] = true
	}
	want := map[string]bool{"tool-0": true, "tool-1": true, "bash": true, "": true, labels.Other: true}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
