package client

import (
	"context"
	"time"
)

// absence finds out whether a log that had events was deleted: it has none at two checks in a row. One check may be
// answered by a replica that is behind.
type absence struct{ since time.Time }

// lasts takes the result of a check. least is the time between two checks that count.
func (a *absence) lasts(missing bool, least time.Duration) bool {
	switch {
	case !missing:
		a.since = time.Time{}
	case a.since.IsZero():
		a.since = time.Now()
	default:
		return time.Since(a.since) >= least
	}
	return false
}

// begun resolves the approvals of a session that was deleted before, if a commit is the first one of its log.
func (f *approvals) begun(session string, first, stream uint64, emit func(Approval) error) error {
	for _, a := range f.waiting[session] {
		if first == 1 && a.stream < stream {
			return f.resolve(session, "", nil, emit)
		}
	}
	return nil
}

// deleted resolves the approvals of sessions that were deleted while live messages were missed: what has ended their
// runs was deleted too.
func (f *approvals) deleted(ctx context.Context) error {
	if !f.missed && len(f.missing) == 0 {
		return nil
	}
	missing := map[string]absence{}
	for session := range f.waiting {
		one, cancel := context.WithTimeout(ctx, attemptTimeout)
		end, err := f.c.head(one, session)
		cancel()
		if f.c.isTransient(err) || ctx.Err() != nil {
			return nil // the next check asks again
		}
		a := f.missing[session]
		if a.lasts(err == nil && end.seq == 0, f.c.checkEvery) { // a damaged log is there
			if err := f.resolve(session, "", nil, f.emit); err != nil {
				return err
			}
		} else if !a.since.IsZero() {
			missing[session] = a
		}
	}
	f.missed, f.missing = false, missing
	return nil
}
