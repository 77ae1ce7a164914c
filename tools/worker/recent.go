package worker

// recent is a map with a limited capacity: a new entry replaces the oldest one. It is not safe for concurrent use.
type recent[V any] struct {
	entries  map[string]V
	order    []string // keys in the order of their insertion, a ring once it is full
	next     int      // index in order of the oldest key, once order is full
	capacity int
}

func newRecent[V any](capacity int) recent[V] {
	return recent[V]{entries: map[string]V{}, capacity: capacity}
}

func (r *recent[V]) get(key string) (V, bool) {
	v, ok := r.entries[key]
	return v, ok
}

// add adds an entry, unless the key has one already.
func (r *recent[V]) add(key string, v V) {
	if _, ok := r.entries[key]; ok {
		return
	}
	r.entries[key] = v
	if len(r.order) < r.capacity {
		r.order = append(r.order, key)
		return
	}
	delete(r.entries, r.order[r.next])
	r.order[r.next] = key
	r.next = (r.next + 1) % r.capacity
}
