// Package sorted puts in order what is too large for memory but can be read again, such as the names in a directory.
package sorted

import (
	"iter"
	"slices"
)

// An Order says how values are put in order, and with how much memory.
type Order[T any] struct {
	Compare func(a, b T) int
	// Size is how many bytes a value takes in memory, and Room how many bytes of values are enough to keep: at most
	// twice as many are kept.
	Size func(T) int
	Room int
}

// Batches returns the values that read passes to add, in order and in batches. It calls read once if they fit in twice
// the room, and otherwise once for each batch: a batch has the values that come next. An error of read ends it.
func (o Order[T]) Batches(read func(add func(T)) error) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		var after *T
		for {
			b := batch[T]{Order: o, after: after}
			if err := read(b.add); err != nil {
				yield(nil, err)
				return
			}
			slices.SortFunc(b.list, o.Compare)
			if !yield(b.list, nil) || b.bound == nil {
				return
			}
			after = b.bound
		}
	}
}

// A batch has the lowest values after a value.
type batch[T any] struct {
	Order[T]
	after *T // nil for the first batch
	list  []T
	size  int
	bound *T // the highest value that is kept, once there was no room for others
}

func (b *batch[T]) add(v T) {
	if b.after != nil && b.Compare(v, *b.after) <= 0 || b.bound != nil && b.Compare(v, *b.bound) >= 0 {
		return
	}
	b.list = append(b.list, v)
	if b.size += b.Size(v); b.size > 2*b.Room {
		b.cut()
	}
}

// cut keeps the lowest values that fit in the room, and at least one.
func (b *batch[T]) cut() {
	slices.SortFunc(b.list, b.Compare)
	n, size := 0, 0
	for ; n == 0 || n < len(b.list) && size+b.Size(b.list[n]) <= b.Room; n++ {
		size += b.Size(b.list[n])
	}
	bound := b.list[n-1]
	clear(b.list[n:]) // so that their memory is free
	b.list, b.size, b.bound = b.list[:n], size, &bound
}
