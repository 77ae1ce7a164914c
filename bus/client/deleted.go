package client

import (
	"context"
	"time"
)

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
// runs was deleted too. A log counts as deleted if it is missing at two checks in a row, because one may be answered by
// a replica that is behind.
func (f *approvals) deleted(ctx context.Context) error {
	if !f.missed && len(f.missing) == 0 {
		return nil
	}
	missing := map[string]time.Time{}
	for session, list := range f.waiting {
		one, cancel := context.WithTimeout(ctx, attemptTimeout)
		end, err := f.c.head(one, session)
		cancel()
		if isTransient(err) || ctx.Err() != nil {
			return nil // the next check asks again
		}
		if err != nil || end.stream >= list[0].stream { // a damaged log is there
			continue
		}
		since, before := f.missing[session]
		switch {
		case !before:
			missing[session] = time.Now()
		case time.Since(since) < f.c.checkEvery:
			missing[session] = since
		default:
			if err := f.resolve(session, "", nil, f.emit); err != nil {
				return err
			}
		}
	}
	f.missed, f.missing = false, missing
	return nil
}
