package index

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Place is the position of a session in a list: latest activity first; within the same millisecond by name. Milli is
// Unix time in milliseconds.
type Place struct {
	Milli   int64
	Session string
}

// Place returns the entry's position.
func (e *Entry) Place() Place { return Place{e.Summary.LastActivity.UnixMilli(), e.Summary.Session} }

// Compare returns a negative number if p comes before q.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(q.Milli, p.Milli), strings.Compare(p.Session, q.Session))
}

// list keeps entries in order. A slice returned by sorted is never modified: later changes are merged into a new
// slice on the next call. It is not safe for concurrent use.
type list struct {
	nodes   map[string]*node
	ordered []*node // as of the last call of sorted
	order   []*Entry
	fresh   map[string]*node // added since then
	stale   bool             // changed since then
}

// node is an entry of the list.
type node struct {
	*Entry
	gone bool // replaced or removed
}

func newList() *list { return &list{nodes: make(map[string]*node), fresh: make(map[string]*node)} }

func (l *list) get(session string) *Entry {
	if n := l.nodes[session]; n != nil {
		return n.Entry
	}
	return nil
}

func (l *list) put(e *Entry) {
	session := e.Summary.Session
	l.remove(session)
	n := &node{Entry: e}
	l.nodes[session], l.fresh[session] = n, n
}

func (l *list) remove(session string) {
	l.stale = true
	if old := l.nodes[session]; old != nil {
		old.gone = true
		delete(l.nodes, session)
		delete(l.fresh, session)
	}
}

func (l *list) sorted() []*Entry {
	if !l.stale {
		return l.order
	}
	fresh := slices.SortedFunc(maps.Values(l.fresh), compareNodes)
	merged := make([]*node, 0, len(l.nodes))
	for _, n := range l.ordered {
		if n.gone {
			continue
		}
		for len(fresh) > 0 && compareNodes(fresh[0], n) < 0 {
			merged, fresh = append(merged, fresh[0]), fresh[1:]
		}
		merged = append(merged, n)
	}
	l.ordered = append(merged, fresh...)
	l.order = make([]*Entry, len(l.ordered))
	for i, n := range l.ordered {
		l.order[i] = n.Entry
	}
	clear(l.fresh)
	l.stale = false
	return l.order
}

func compareNodes(a, b *node) int { return a.Place().Compare(b.Place()) }
