// Package family arranges sessions in trees: a session is a child of the session that it was branched from, or whose
// call has started it as a sub-agent. It reads each session with the fold that the lists of sessions use.
package family

import (
	"cmp"
	"iter"
	"slices"

	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/schemas"
)

// A Node is a session with its children, in the order in which they were branched or started.
type Node struct {
	schemas.SessionSummary
	Name     string  `json:"name,omitempty"`
	Problem  string  `json:"problem,omitempty"` // its log is damaged after the event Seq
	Children []*Node `json:"children,omitempty"`
}

// Parent reads the start of a session's log, as far as it may name a parent.
func Parent(events iter.Seq2[schemas.Event, error]) (*schemas.SessionParent, error) {
	var e index.Entry
	for ev, err := range events {
		if err != nil {
			return nil, err
		}
		e.Apply(ev)
		if _, begun := ev.Data.(*schemas.AgentStart); begun || e.Summary.Parent != nil {
			break
		}
	}
	return e.Summary.Parent, nil
}

// Read reads a session's log. If the log has an error, Read returns it with the node of the events before it.
func Read(session string, events iter.Seq2[schemas.Event, error]) (*Node, error) {
	e := index.Entry{Summary: schemas.SessionSummary{Session: session}}
	n := new(Node)
	for ev, err := range events {
		if err != nil {
			n.SessionSummary = e.Summary
			return n, err
		}
		e.Apply(ev)
		if d, ok := ev.Data.(*schemas.Name); ok {
			n.Name = d.Name
		}
	}
	n.SessionSummary = e.Summary
	return n, nil
}

// Trees puts sessions below their parents and returns the roots, most recently active first. A session whose parent is
// not in nodes is a root. Trees changes the nodes.
func Trees(nodes []*Node) []*Node {
	byID := make(map[string]*Node, len(nodes))
	for _, n := range nodes {
		byID[n.Session] = n
	}
	var roots []*Node
	for _, n := range nodes {
		if p := n.parent(byID); p != nil {
			p.Children = append(p.Children, n)
		} else {
			roots = append(roots, n)
		}
	}
	for _, n := range nodes {
		slices.SortFunc(n.Children, func(a, b *Node) int {
			return cmp.Or(cmp.Compare(a.Parent.Seq, b.Parent.Seq), a.Created.Compare(b.Created),
				cmp.Compare(a.Session, b.Session))
		})
	}
	slices.SortFunc(roots, func(a, b *Node) int {
		return cmp.Or(b.LastActivity.Compare(a.LastActivity), cmp.Compare(a.Session, b.Session))
	})
	return roots
}

// parent returns the node's parent, nil for a root. In a cycle of sessions, which no runner writes, the one with the
// smallest id is the root, so that every session is in a tree and no loop is endless.
func (n *Node) parent(byID map[string]*Node) *Node {
	if n.Parent == nil {
		return nil
	}
	parent, least := byID[n.Parent.Session], n.Session
	at := parent
	for steps := 0; at != nil && at != n && at.Parent != nil && steps < len(byID); steps++ {
		least = min(least, at.Session)
		at = byID[at.Parent.Session]
	}
	if at == n && least == n.Session {
		return nil
	}
	return parent
}

// Of returns the ids of a session, its ancestors and its descendants, given the parents of all sessions.
func Of(session string, parents map[string]*schemas.SessionParent) map[string]bool {
	children := map[string][]string{}
	for child, p := range parents {
		if p != nil {
			children[p.Session] = append(children[p.Session], child)
		}
	}
	of := map[string]bool{session: true}
	for next := []string{session}; len(next) > 0; {
		at := next[0]
		next = next[1:]
		for _, child := range children[at] {
			if !of[child] {
				of[child] = true
				next = append(next, child)
			}
		}
	}
	for at := parents[session]; at != nil && !of[at.Session]; at = parents[at.Session] {
		of[at.Session] = true
	}
	return of
}
