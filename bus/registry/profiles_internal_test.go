package registry

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A session reads its profile at each run, so the look-up must not depend on how many profiles there are.
func TestLookUpOfAProfileCostsTheSame(t *testing.T) {
	const many = 10_000
	none := errors.New("none")
	p := &Profiles{none: none, keys: newKeys(), followed: &followed[NamedProfile]{
		loaded: true, entries: make(map[string]NamedProfile, many)}}
	for i := range many {
		name := fmt.Sprintf("p%d", i)
		p.entries[name] = NamedProfile{Name: name}
	}
	if n := testing.AllocsPerRun(10, func() {
		if _, err := p.received(t.Context(), "p4711"); err != nil {
			t.Error(err)
		}
	}); n > 5 {
		t.Errorf("a look-up among %d profiles makes %.0f allocations", many, n)
	}
	if _, err := p.received(t.Context(), "x"); !errors.Is(err, none) || !strings.Contains(err.Error(), "10000 others") {
		t.Errorf("unknown profile: %v", err)
	}
}
