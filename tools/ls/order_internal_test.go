package ls

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func names(count, length int) func(add func(string)) error {
	return func(add func(string)) error {
		for n := range count {
			add(fmt.Sprintf("%07d", (n*7919)%count) + strings.Repeat("é", length))
		}
		return nil
	}
}

// A directory with many names takes no more memory than the first ones, which are those that are shown.
func TestNamesThatAreNotShownAreNotKept(t *testing.T) { // not parallel: it measures the heap
	const count, room = 4000, 1 << 20
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	for list, err := range ordered(room, names(count, 1000)) {
		if kept := heap() - before; err != nil || kept > 4*room {
			t.Errorf("%v, %d bytes are kept of %d names", err, kept, count)
		}
		if len(list) == 0 || !strings.HasPrefix(list[0].name, "0000000") {
			t.Errorf("%d names", len(list))
		}
		break
	}
}

// With little room the order is the same.
func TestOrderInBatches(t *testing.T) {
	t.Parallel()
	order := func(room int) (list []string) {
		for batch, err := range ordered(room, names(300, 3)) {
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range batch {
				list = append(list, e.name)
			}
		}
		return list
	}
	if few, all := order(1000), order(1<<20); !slices.Equal(few, all) || len(all) != 300 {
		t.Errorf("got %v, want %v", few, all)
	}
}
