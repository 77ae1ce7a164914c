package labels_test

import (
	"fmt"
	"slices"
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

// Histograms of seconds have buckets from a fast call's time to a slow model's, in order.
func TestBucketsOfSeconds(t *testing.T) {
	t.Parallel()
	s := labels.Seconds()
	if len(s) == 0 || s[0] != 0.005 || s[len(s)-1] != 600 || !slices.IsSorted(s) {
		t.Errorf("buckets %v", s)
	}
}
