package queries

import (
	"context"

	"github.com/loopbus/loopbus/schemas"
)

// A Tree folds a session's log to its tree entries. Place returns what the fold must remember to continue after the
// events that it has received.
type Tree interface {
	Apply(e schemas.Event) []schemas.TreeEntry
	Place() (leaf, before string)
}

// entries adds a page of a session's tree to an answer: of the log at event Seq of the view.
func (q *queries) entries(ctx context.Context, session string, p *page, c cursor, v View,
	answer *schemas.SessionTree) error {
	answer.Entries = []schemas.TreeEntry{}
	var seq, place uint64
	_, upTo, err := q.o.Logs.Head(ctx, session)
	if err == nil && c.Changed > 0 {
		seq, place, err = q.o.Logs.Seek(ctx, session, c.Changed+1)
	}
	if err != nil {
		return err
	}
	tree := q.o.Tree(c.Leaf, c.Before)
	for e, err := range q.o.Logs.Between(ctx, session, seq, place, upTo) {
		if err != nil {
			return err
		}
		if e.Seq <= c.Changed {
			continue
		}
		if e.Seq > v.Seq() {
			return nil
		}
		before := cursor{Changed: e.Seq - 1}
		before.Leaf, before.Before = tree.Place()
		for n, entry := range tree.Apply(e) {
			if n < c.Offset { // on an earlier page
				continue
			}
			entry.Label = v.Label(entry.ID)
			if !p.fits(entry) {
				before.Offset = n
				answer.Next = before.encode()
				return nil
			}
			answer.Entries = append(answer.Entries, entry)
		}
		c.Offset = 0
	}
	return nil
}
