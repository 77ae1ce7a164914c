package index

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Place is where a session stands in a list: those with the latest activity first, those of the same millisecond by
// name. Milli is Unix milliseconds.
type Place struct {
	Milli   int64
	Session string
}

// Place is where the entry stands.
func (e *Entry) Place() Place { return Place{e.Summary.LastActivity.UnixMilli(), e.Summary.Session} }

// Compare is negative where p stands before q.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(q.Milli, p.Milli), strings.Compare(p.Session, q.Session))
}

// list keeps entries in order. The slice that sorted returns is never changed: what was replaced since is merged into a
// new one when somebody asks. It is not safe for concurrent use.
type list struct {
	nodes   map[string]*node
	ordered []*node // as they were when somebody asked last
	order   []*Entry
	fresh   map[string]*node // new since then
	stale   bool             // something has changed since then
}

// node is an entry in the list.
type node struct {
	*Entry
	gone bool // the list has another one of the session, or none
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
