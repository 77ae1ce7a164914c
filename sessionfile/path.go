package sessionfile

import "slices"

// cutCycles returns the entries at which paths end because their parents lead back to them: of each cycle the first
// entry in the file.
func cutCycles(byID map[string]*Entry, order []string) map[string]bool {
	place := make(map[string]int, len(order))
	for i, id := range order {
		place[id] = i
	}
	cut := map[string]bool{}
	walk := make(map[string]int, len(order)) // by entry: number of the walk that first reached it
	for n, start := range order {
		var met []string
		id := start
		for byID[id] != nil && walk[id] == 0 {
			walk[id] = n + 1
			met = append(met, id)
			id = byID[id].Parent
		}
		if byID[id] == nil || walk[id] != n+1 {
			continue
		}
		circle := met[slices.Index(met, id):]
		cut[slices.MinFunc(circle, func(a, b string) int { return place[a] - place[b] })] = true
	}
	return cut
}

// Parent returns the parent of an entry, nil for a root: an entry without a parent, with an unknown one, or at the end
// of a cycle.
func (s *Session) Parent(e *Entry) *Entry {
	if s.cut[e.ID] {
		return nil
	}
	return s.byID[e.Parent]
}

// Path returns the entries from a root to the one with this id. It is empty if the id is unknown.
func (s *Session) Path(id string) []*Entry {
	path := []*Entry{}
	for e := s.byID[id]; e != nil; e = s.Parent(e) {
		path = append(path, e)
	}
	slices.Reverse(path)
	return path
}

// Children returns the entries that name this one as their parent, in the order of the file.
func (s *Session) Children(id string) []*Entry {
	list := []*Entry{}
	for _, child := range s.order {
		if e := s.byID[child]; e.Parent == id && id != "" {
			list = append(list, e)
		}
	}
	return list
}
