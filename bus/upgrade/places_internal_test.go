package upgrade

import (
	"slices"
	"testing"
)

// Of those that have said nothing the one that came first makes room; of those that have connected none does.
func TestPlaces(t *testing.T) {
	t.Parallel()
	const maxSilent = 64
	p := NewPlaces(2, maxSilent)
	got := []bool{p.Take("a"), p.Take("a"), p.Take("b"), p.Take("")}
	if !slices.Equal(got, []bool{true, false, true, false}) {
		t.Errorf("two callers and others want two places: %v", got)
	}
	p.Release("a")
	if !p.Take("") {
		t.Error("the place that was released is not there")
	}
	var ended []int
	var all []*Silence
	for i := range maxSilent {
		all = append(all, p.Wait(func() { ended = append(ended, i) }))
	}
	p.Spoken(all[0])
	p.Spoken(all[0])
	p.Wait(func() {})
	if len(ended) > 0 {
		t.Errorf("%v made room where there was some", ended)
	}
	p.Wait(func() {})
	p.Wait(func() {})
	if !slices.Equal(ended, []int{1, 2}) || len(p.silent) != maxSilent {
		t.Errorf("%v made room, %d are left", ended, len(p.silent))
	}
}
