package queries

import (
	"context"

	"github.com/loopbus/loopbus/schemas"
)

// page counts what is on a page: no more than was asked for, and no more than an answer takes.
type page struct{ items, bytes int }

// frame is what an answer has in addition to its items.
const frame = 2 << 10

func newPage(limit, room int) *page { return &page{limit, room - frame} }

// fits reports whether an item has its place on the page, which it then takes.
func (p *page) fits(item any) bool {
	raw, err := schemas.Marshal(item)
	return err == nil && p.take(len(raw))
}

// take is fits for an item of a size.
func (p *page) take(size int) bool {
	if size++; p.items < 1 || p.bytes < size { // a comma
		return false
	}
	p.items--
	p.bytes -= size
	return true
}

// paged returns the items of a page that begins at an offset, and the cursor of the one that follows. An item that is
// larger than a page is asked to be made smaller.
func paged[T any](p *page, all []T, from int, smaller func(T) T) (items []T, next string) {
	items = []T{}
	for n := min(from, len(all)); n < len(all); n++ {
		item := all[n]
		fits := p.fits(item)
		if !fits && len(items) == 0 {
			item = smaller(item)
			fits = p.fits(item)
		}
		if !fits {
			return items, cursor{Offset: n}.encode()
		}
		items = append(items, item)
	}
	return items, ""
}

// pageOf reads a request for a page of a list.
func (q *queries) pageOf(data []byte) (*page, cursor, error) {
	req, err := decode[schemas.PageQuery]("page_query", data)
	if err != nil {
		return nil, cursor{}, err
	}
	c, err := decodeCursor(req.Cursor)
	limit := req.Limit
	if limit == 0 {
		limit = pageLimit
	}
	return newPage(limit, q.room), c, err
}

// view folds the log of a session that there is.
func (q *queries) view(ctx context.Context, session string) (v View, err error) {
	err = q.read(ctx, func() error {
		v, err = q.o.View(ctx, session)
		return err
	})
	if err == nil && v.Seq() == 0 {
		err = noSession(session)
	}
	return v, err
}

func noSession(session string) error {
	return fail(schemas.QueryNotFound, "there is no session %s", session)
}
