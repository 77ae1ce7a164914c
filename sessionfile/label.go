package sessionfile

import (
	"slices"
	"strings"
)

// A Label is a name that somebody gave an entry, and when.
type Label struct {
	Target, Label, Timestamp string
}

// labels are those in force, in the order in which their targets got one.
type labels struct {
	by    map[string]Label
	order []string
}

// apply takes a label entry in. The last one of a target counts; an empty one takes the label away.
func (l *labels) apply(e *Entry) {
	target, text := e.Text("targetId"), e.Text("label")
	_, had := l.by[target]
	switch {
	case text != "":
		l.by[target] = Label{target, text, e.Text("timestamp")}
		if !had {
			l.order = append(l.order, target)
		}
	case had:
		delete(l.by, target)
		l.order = slices.DeleteFunc(l.order, func(id string) bool { return id == target })
	}
}

// Label returns an entry's label, nil if it has none.
func (s *Session) Label(id string) *Label {
	if l, ok := s.labels.by[id]; ok {
		return &l
	}
	return nil
}

// Labels returns the labels in force, in the order in which their targets got one.
func (s *Session) Labels() []Label {
	list := make([]Label, len(s.labels.order))
	for i, id := range s.labels.order {
		list[i] = s.labels.by[id]
	}
	return list
}

func trim(s string) string { return strings.TrimSpace(s) }
