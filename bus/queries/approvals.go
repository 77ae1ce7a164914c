package queries

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/schemas"
)

// approvals answers which calls of a session wait for approval.
func (q *queries) approvals(ctx context.Context, session string, data []byte) (any, error) {
	p, c, err := q.pageOf(data)
	if err != nil {
		return nil, err
	}
	e, err := q.fresh(ctx, session)
	if err != nil {
		return nil, err
	}
	answer := schemas.ApprovalsPage{Session: session, Seq: e.Summary.Seq}
	answer.Approvals, answer.Next = paged(p, e.Waiting, c.Offset, withoutArgs)
	return answer, nil
}

// allApprovals answers which calls of all sessions wait for approval, oldest first.
func (q *queries) allApprovals(ctx context.Context, _ string, data []byte) (any, error) {
	p, c, err := q.pageOf(data)
	if err != nil {
		return nil, err
	}
	if err := q.o.Index.Wait(ctx, c.Since); err != nil {
		return nil, err
	}
	v := q.o.Index.View()
	all := oldest(v.Entries, c, p.items+1) // one more shows that there is another page
	answer := schemas.ApprovalsPage{Revision: v.Revision, Approvals: []schemas.PendingApproval{}, Partial: v.Partial}
	for i, a := range all {
		if !p.fits(a) {
			answer.Next = behindPending(v.Revision, all[max(i-1, 0)]).encode()
			break
		}
		answer.Approvals = append(answer.Approvals, a)
	}
	return answer, nil
}

// oldest returns the first calls that wait, in their order, of those behind a cursor. All of them may take hundreds of
// megabytes, so it has twice as many as it returns, at most.
func oldest(entries []*index.Entry, c cursor, most int) (all []schemas.PendingApproval) {
	keep := func() {
		slices.SortFunc(all, comparePending)
		all = slices.Delete(all, min(most, len(all)), len(all))
	}
	for _, e := range entries {
		for _, a := range e.Waiting {
			if c.Place.Session != "" && comparePending(a, c.pending()) <= 0 {
				continue
			}
			if all = append(all, a); len(all) >= 2*most {
				keep()
			}
		}
	}
	keep()
	return all
}

func withoutArgs(a schemas.PendingApproval) schemas.PendingApproval {
	a.Args, a.ArgsSize = nil, len(a.Args)
	return a
}

// behindPending returns the cursor of a page that starts after a call.
func behindPending(revision uint64, a schemas.PendingApproval) cursor {
	return cursor{Since: revision, Place: index.Place{Milli: a.Requested.UnixMilli(), Session: a.Session},
		Changed: a.Seq}
}

// pending returns the parts of the call that the order depends on.
func (c cursor) pending() schemas.PendingApproval {
	return schemas.PendingApproval{Requested: time.UnixMilli(c.Place.Milli), Session: c.Place.Session, Seq: c.Changed}
}

// comparePending orders calls by the time since when they wait, so that an answer in between moves none of the
// others.
func comparePending(a, b schemas.PendingApproval) int {
	return cmp.Or(cmp.Compare(a.Requested.UnixMilli(), b.Requested.UnixMilli()), strings.Compare(a.Session, b.Session),
		cmp.Compare(a.Seq, b.Seq))
}
