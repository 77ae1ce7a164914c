package eventstore

import (
	"context"
	"fmt"
	"time"
)

// Confirm returns nil once it is known that since the given moment no other writer had extended the session: an event
// sent after it has been stored, or the end of the log, as the leader of the stream has it, is this log's own. It is what
// a process asks that may have been suspended, before it does anything that cannot be fenced. An error is final if it is
// a [schemas.ConflictError]; if the server cannot be asked before ctx ends, nothing is known.
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

// proof reports whether storing has shown it already. Otherwise it returns a channel that tells when the append under way
// is stored, nil if there is none.
func (l *Log) proof(since time.Time) (wait chan error, known bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, false, l.err
	}
	if known = !l.proven.Before(since); known || len(l.queue) == 0 {
		return nil, known, nil
	}
	wait = make(chan error, 1)
	l.flushes = append([]flush{{l.queue[0].seq, wait}}, l.flushes...) // they are in the order of their sequences
	return wait, false, nil
}

// confirmHead compares the end of the log with what is stored. Nothing is known if events are being stored by then.
func (l *Log) confirmHead(ctx context.Context) (known bool, err error) {
	var last record
	err = l.s.retry(ctx, func(ctx context.Context) (err error) {
		last, _, err = l.s.leaderGet(ctx, getRequest{LastFor: l.subject})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("eventstore: confirm session %s: %w", l.session, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
	case last.stream <= l.head.stream:
		return true, nil
	case len(l.queue) == 0:
		l.fail(l.conflict(&entry{seq: l.head.seq + 1}, nil))
	}
	return false, l.err
}
