package queries

import (
	"context"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/schemas"
)

// maxFamily limits the sessions of a family in an answer.
const maxFamily = 2048

// tree answers with a page of the session's tree and with its family.
func (q *queries) tree(ctx context.Context, session string, data []byte) (any, error) {
	p, c, err := q.pageOf(data)
	if err != nil {
		return nil, err
	}
	answer := schemas.SessionTree{Session: session, Nodes: []schemas.TreeNode{}}
	if c == (cursor{}) {
		if err := q.family(ctx, p, &answer); err != nil {
			return nil, err
		}
	}
	return q.view(ctx, session, func(v View) (any, error) {
		state := v.State()
		answer.Seq, answer.Name, answer.Leaf = v.Seq(), state.Name, state.Leaf
		err := q.entries(ctx, session, p, c, v, &answer)
		return answer, err
	})
}

// family adds the session's family to an answer. It takes at most half a page.
func (q *queries) family(ctx context.Context, p *page, answer *schemas.SessionTree) error {
	own, err := q.fresh(ctx, answer.Session)
	if err != nil {
		return err
	}
	v := q.o.Index.View()
	root := own
	for range maxFamily { // bounded, so that an invalid cycle of parents cannot block the runner
		p := root.Summary.Parent
		if p == nil {
			break
		}
		parent := q.o.Index.Get(p.Session)
		if parent == nil { // deleted, or not indexed yet
			parent = &index.Entry{Summary: schemas.SessionSummary{Session: p.Session}}
		}
		root = parent
	}
	f := &family{ix: q.o.Index, own: own, room: p.bytes / 2, seen: make(map[string]bool)}
	whole := f.add(root)
	p.bytes -= p.bytes/2 - f.room
	slices.SortFunc(f.nodes, func(a, b schemas.TreeNode) int { return strings.Compare(a.Session, b.Session) })
	answer.Revision, answer.Nodes, answer.Partial = v.Revision, f.nodes, v.Partial || !whole
	return nil
}

// family collects the sessions of a family, starting at its root.
type family struct {
	ix    *index.Index
	own   *index.Entry // the queried session, up to date with its log
	room  int
	seen  map[string]bool
	nodes []schemas.TreeNode
}

// add adds a session and, level by level, its branches. It returns false if not all of them fit.
func (f *family) add(root *index.Entry) bool {
	for level := []*index.Entry{root}; len(level) > 0; {
		var next []*index.Entry
		for _, e := range level {
			if f.seen[e.Summary.Session] {
				continue
			}
			if !f.node(e) {
				return false
			}
			children := f.ix.Children(e.Summary.Session)
			if p := f.own.Summary.Parent; p != nil && p.Session == e.Summary.Session {
				children = append(children, f.own) // it may not be indexed yet
			}
			next = append(next, children...)
		}
		level = next
	}
	return true
}

func (f *family) node(e *index.Entry) bool {
	if e.Summary.Session == f.own.Summary.Session {
		e = f.own
	}
	const most = 256 // two ids of 64 characters and a number
	if f.room -= most; f.room < 0 || len(f.nodes) >= maxFamily {
		return false
	}
	f.seen[e.Summary.Session] = true
	f.nodes = append(f.nodes, schemas.TreeNode{Session: e.Summary.Session, Parent: e.Summary.Parent})
	return true
}
