package worker

// recent is a map that forgets its oldest entries: it has room for so many. It is not safe for concurrent use.
type recent[V any] struct {
	entries map[string]V
	order   []string // as they came, a ring once it is full
	next    int
	room    int
}

func newRecent[V any](room int) recent[V] { return recent[V]{entries: map[string]V{}, room: room} }

func (r *recent[V]) get(key string) (V, bool) {
	v, ok := r.entries[key]
	return v, ok
}

// add adds an entry, unless there is one under the key.
func (r *recent[V]) add(key string, v V) {
	if _, ok := r.entries[key]; ok {
		return
	}
	r.entries[key] = v
	if len(r.order) < r.room {
		r.order = append(r.order, key)
		return
	}
	delete(r.entries, r.order[r.next])
	r.order[r.next] = key
	r.next = (r.next + 1) % r.room
}
