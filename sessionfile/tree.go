package sessionfile

import "slices"

// A Node is an entry in the tree, with its label, if it has one.
type Node struct {
	Entry    *Entry
	Label    *Label
	Children []*Node
}

// Tree returns the roots in the order of the file. Children are sorted by their timestamps; those with equal timestamps
// stay in the order of the file.
func (s *Session) Tree() []*Node {
	nodes := make(map[string]*Node, len(s.order))
	for _, id := range s.order {
		nodes[id] = &Node{Entry: s.byID[id], Label: s.Label(id)}
	}
	roots := []*Node{}
	for _, id := range s.order {
		if p := s.Parent(s.byID[id]); p != nil {
			parent := nodes[p.ID]
			parent.Children = append(parent.Children, nodes[id])
		} else {
			roots = append(roots, nodes[id])
		}
	}
	for _, n := range nodes {
		slices.SortStableFunc(n.Children, func(a, b *Node) int {
			x, okX := a.Entry.Time()
			y, okY := b.Entry.Time()
			if !okX || !okY {
				return 0
			}
			return x.Compare(y)
		})
	}
	return roots
}
