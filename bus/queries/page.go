package queries

import (
	"context"

	"github.com/loopbus/loopbus/schemas"
)

// page counts down what still fits on a page: the requested number of items, and the bytes of an answer.
type page struct{ items, bytes int }

// frame reserves bytes for the parts of an answer besides its items.
const frame = 2 << 10

func newPage(limit, room int) *page { return &page{limit, room - frame} }

// fits reports whether an item fits on the page, and if so reserves its space.
func (p *page) fits(item any) bool {
	raw, err := schemas.Marshal(item)
	return err == nil && p.take(len(raw))
}

// take is like fits, for an item of a known size.
func (p *page) take(size int) bool {
	if size++; p.items < 1 || p.bytes < size { // plus a comma
		return false
	}
	p.items--
	p.bytes -= size
	return true
}

// paged returns the items of a page that starts at an offset, and the cursor of the next page. If an item is larger
// than a page, paged replaces it by smaller(item).
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

// pageOf decodes a request for a page of a list.
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

// view folds the log of a session that must exist, and answers with what f makes of it. The view is dropped before
// another log is read in its place: it may be large.
func (q *queries) view(ctx context.Context, session string, f func(v View) (any, error)) (answer any, err error) {
	err = q.o.Index.Read(ctx, session, func() error {
		ctx, end := q.o.Loads.Load(ctx)
		defer end()
		v, err := q.o.View(ctx, session)
		switch {
		case err != nil:
			return err
		case v.Seq() == 0:
			return noSession(session)
		}
		answer, err = f(v)
		return err
	})
	return answer, err
}

func noSession(session string) error {
	return fail(schemas.QueryNotFound, "no session %s", session)
}
