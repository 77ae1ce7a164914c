package eventstore

import (
	"context"
	"fmt"
	"time"
)

// Confirm sends what was appended and returns nil once it is known that since the given moment no other writer had
// extended the session: an event sent after it has been stored, or the end of the log, as the leader of the stream has
// it, is this log's own. It is what a process asks that may have been suspended, before it does anything that cannot
// be fenced. An error is final if it is a [schemas.ConflictError]; if the server cannot be asked before ctx ends,
// nothing is known.
func (l *Log) Confirm(ctx context.Context, since time.Time) error {
	for {
		wait, known, err := l.proof(since)
		if known || err != nil {
			return err
		}
		if wait == nil {
			known, err = l.confirmHead(ctx)
			if known || err != nil {
				return err
			}
			continue // something was appended meanwhile: the server will tell
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

// proof reports whether storing has shown it already. Otherwise it returns a channel that tells when the commit in
// flight is stored, nil if there is none.
func (l *Log) proof(since time.Time) (wait chan error, known bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.send()
	if l.err != nil {
		return nil, false, l.err
	}
	if known = !l.proven.Before(since); known || len(l.queue) == 0 {
		return nil, known, nil
	}
	wait = make(chan error, 1)
	l.flushes = append([]flush{{l.queue[0].Last, wait}}, l.flushes...) // they are in the order of their sequences
	return wait, false, nil
}

// confirmHead compares the end of the log with what is stored. Nothing is known if events are being stored by then.
func (l *Log) confirmHead(ctx context.Context) (known bool, err error) {
	before := l.tailNow()
	last, _, err := l.keep.end(ctx, l.session, asLed)
	if err != nil {
		return false, fmt.Errorf("eventstore: confirm session %s: %w", l.session, err)
	}
	foreign := []record(nil)
	if tail := l.tailNow(); last.stream > tail && last.foreign(l.session) && last.fence() == "" {
		for rec, err := range l.keep.between(ctx, l.session, tail, last.stream) {
			if err != nil {
				return false, fmt.Errorf("eventstore: confirm session %s: %w", l.session, err)
			}
			if !rec.foreign(l.session) || rec.fence() != "" {
				last = rec
				break
			}
			foreign = append(foreign, rec)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, rec := range foreign {
		if l.err == nil && len(l.queue) == 0 && rec.stream > l.tail {
			l.passLocked(rec)
		}
	}
	switch {
	case l.err != nil:
	case last.stream < before: // the session was deleted
		l.fail(l.conflict(l.head.seq+1, nil))
	case last.stream <= l.tail:
		return true, nil
	case len(l.queue) == 0:
		l.fail(l.conflict(l.head.seq+1, nil))
	}
	return false, l.err
}
