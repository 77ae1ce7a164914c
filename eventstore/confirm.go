package eventstore

import (
	"context"
	"fmt"
	"time"
)

// Confirm sends everything appended and returns nil once it is known that no other writer had extended the session by
// the time since. The proof is an event that was sent after since and stored, or an answer of the stream's leader by
// which the log ends where this writer left it. A process that may have been suspended calls Confirm before an effect
// that cannot be fenced. An error is final if it is a [schemas.ConflictError]. Any other error, such as the end of ctx
// while the server cannot be reached, proves nothing.
func (l *Log) Confirm(ctx context.Context, since time.Time) error {
	for {
		wait, confirmed, err := l.confirmStored(since)
		if confirmed || err != nil {
			return err
		}
		if wait == nil {
			confirmed, err = l.confirmTail(ctx)
			if confirmed || err != nil {
				return err
			}
			continue // an event was appended in the meantime: the server's answer to it is a proof
		}
		select {
		case err := <-wait:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("eventstore: confirm session %s: %w", l.session, context.Cause(ctx))
		}
	}
}

// confirmStored reports whether a commit sent after since is stored. If not, it returns a channel that receives when
// the commit in flight is stored; nil if there is none.
func (l *Log) confirmStored(since time.Time) (wait chan error, confirmed bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.send()
	if l.err != nil {
		return nil, false, l.err
	}
	if confirmed = !l.ownedAt.Before(since); confirmed || len(l.queue) == 0 {
		return nil, confirmed, nil
	}
	wait = make(chan error, 1)
	l.waiting = append([]waiter{{l.queue[0].Last, wait}}, l.waiting...) // first: they are ordered by sequence
	return wait, false, nil
}

// confirmTail compares the newest message on the subject with the one that this log knows. It confirms nothing if
// events were appended in the meantime.
func (l *Log) confirmTail(ctx context.Context) (confirmed bool, err error) {
	before := l.tailNow()
	newest, _, err := l.backend.last(ctx, l.session, leader)
	if err != nil {
		return false, fmt.Errorf("eventstore: confirm session %s: %w", l.session, err)
	}
	var foreign []record
	if tail := l.tailNow(); newest.stream > tail && newest.foreign(l.session) && newest.fence() == "" {
		for rec, err := range l.backend.between(ctx, l.session, tail, newest.stream) {
			if err != nil {
				return false, fmt.Errorf("eventstore: confirm session %s: %w", l.session, err)
			}
			if !rec.foreign(l.session) || rec.fence() != "" {
				newest = rec
				break
			}
			foreign = append(foreign, rec)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, rec := range foreign {
		if l.err == nil && len(l.queue) == 0 && rec.stream > l.tail {
			l.skipForeignLocked(rec)
		}
	}
	switch {
	case l.err != nil:
	case newest.stream < before: // the session was deleted
		l.fail(l.conflict(l.head.seq+1, nil))
	case newest.stream <= l.tail:
		return true, nil
	case len(l.queue) == 0:
		l.fail(l.conflict(l.head.seq+1, nil))
	}
	return false, l.err
}
