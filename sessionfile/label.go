package sessionfile

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// A Label is the name of an entry, and when it was set.
type Label struct {
	Target, Label, Timestamp string
}

// labels are the current labels, by their targets.
type labels struct {
	by    map[string]placed
	count int // number of labels set so far on targets without one
}

// placed is a label and the place of its target among those that have one.
type placed struct {
	Label
	at int
}

// apply applies a label entry. The last one of a target counts; an empty one removes the label.
func (l *labels) apply(e *Entry) {
	target, text := e.Text("targetId"), e.Text("label")
	before, had := l.by[target]
	if text == "" {
		delete(l.by, target)
		return
	}
	if !had {
		l.count++
		before.at = l.count
	}
	l.by[target] = placed{Label{target, text, e.Text("timestamp")}, before.at}
}

// Label returns an entry's label, nil if it has none.
func (s *Session) Label(id string) *Label {
	if l, ok := s.labels.by[id]; ok {
		return &l.Label
	}
	return nil
}

// Labels returns the current labels, in the order in which their targets got one.
func (s *Session) Labels() []Label {
	current := slices.SortedFunc(maps.Values(s.labels.by), func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	list := make([]Label, len(current))
	for i, l := range current {
		list[i] = l.Label
	}
	return list
}

func trim(s string) string { return strings.TrimSpace(s) }
