package sorted_test

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/loopbus/loopbus/tools/internal/sorted"
)

// However little room there is, all values come in order, and no batch is larger than twice the room or one value.
func TestBatches(t *testing.T) {
	t.Parallel()
	for _, room := range []int{0, 1, 7, 50, 51, 1000} {
		values := rand.Perm(100)
		reads := 0
		o := sorted.Order[int]{Compare: cmp.Compare[int], Size: func(int) int { return 1 }, Room: room}
		var got []int
		for list, err := range o.Batches(func(add func(int)) error {
			reads++
			for _, v := range values {
				add(v)
			}
			return nil
		}) {
			if err != nil || len(list) > max(2*room, 1) {
				t.Errorf("room %d: %v, a batch of %d", room, err, len(list))
			}
			got = append(got, list...)
		}
		slices.Sort(values)
		if !slices.Equal(got, values) || room >= 50 && reads != 1 || reads > len(values)/max(room, 1)+1 {
			t.Errorf("room %d: %v, read %d times", room, got, reads)
		}
	}
}

func TestBatchesEnd(t *testing.T) {
	t.Parallel()
	o := sorted.Order[int]{Compare: cmp.Compare[int], Size: func(int) int { return 1 }, Room: 1}
	boom, reads := errors.New("boom"), 0
	for list, err := range o.Batches(func(add func(int)) error {
		if reads++; reads == 2 {
			return boom
		}
		for v := range 9 {
			add(v)
		}
		return nil
	}) {
		if reads == 1 && (err != nil || len(list) == 0) || reads == 2 && !errors.Is(err, boom) || reads > 2 {
			t.Errorf("read %d: %v, %v", reads, list, err)
		}
	}
	for range o.Batches(func(add func(int)) error { add(1); add(2); add(3); reads++; return nil }) {
		break
	}
	if reads != 3 {
		t.Errorf("it was read %d times", reads)
	}
}
