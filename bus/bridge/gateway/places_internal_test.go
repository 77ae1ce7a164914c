package gateway

import (
	"slices"
	"testing"
)

// Of those that have said nothing the one that came first makes room; of those that have connected none does.
func TestPlaces(t *testing.T) {
	t.Parallel()
	p := places{most: 2}
	if got := []bool{p.take(), p.take(), p.take()}; !slices.Equal(got, []bool{true, true, false}) {
		t.Errorf("three that want one of two places: %v", got)
	}
	p.release()
	if !p.take() {
		t.Error("the place that was released is not there")
	}
	var ended []int
	var all []*silence
	for i := range maxSilent {
		all = append(all, p.wait(func() { ended = append(ended, i) }))
	}
	p.spoken(all[0])
	p.spoken(all[0])
	p.wait(func() {})
	if len(ended) > 0 {
		t.Errorf("%v made room where there was some", ended)
	}
	p.wait(func() {})
	p.wait(func() {})
	if !slices.Equal(ended, []int{1, 2}) || len(p.silent) != maxSilent {
		t.Errorf("%v made room, %d are left", ended, len(p.silent))
	}
}
