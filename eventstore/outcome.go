package eventstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// OutcomeError is the final error of a log that cannot find out whether a commit, which begins with event Seq, was
// stored: the server could not be reached for Options.OutcomeTimeout. A writer that opens the session again reads what
// was stored.
type OutcomeError struct {
	Session string
	Seq     uint64
	Cause   error // of the last attempt to find out
}

// Error names session, sequence and cause.
func (e *OutcomeError) Error() string {
	return fmt.Sprintf("eventstore: append session %s seq %d, outcome unknown: %v", e.Session, e.Seq, e.Cause)
}

// Unwrap returns the cause.
func (e *OutcomeError) Unwrap() error { return e.Cause }

// unanswered starts a goroutine that finds out whether a commit was stored, whose publish met cause in place of an
// acknowledgement or a conflict. A cause that says that it was not stored is final. mu is held.
func (l *Log) unanswered(c *commit, cause error) {
	l.token = 0
	if l.timer != nil {
		l.timer.Stop()
	}
	if !unavailable(cause) && !errors.Is(cause, errAnswer) { // such as a message that is too large
		l.fail(l.failed(c, cause))
		return
	}
	var refusal *jetstream.APIError
	text := "append without an answer, finding out"
	if errors.As(cause, &refusal) {
		text = "append refused, trying again: the stream may be full"
	}
	l.o.Logger.Warn(text, "session", l.session, "seq", c.First, "last", c.Last, "err", cause)
	l.work(func(ctx context.Context) { l.resolve(ctx, c, nil) })
}

// work starts a goroutine that works on the first commit of the queue. Its context ends after OutcomeTimeout and when
// the log fails or is closed. mu is held.
func (l *Log) work(f func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), l.o.OutcomeTimeout)
	l.stop = cancel
	go func() {
		defer cancel()
		f(ctx)
	}()
}

// resolve finds out whether a commit was stored. It reads the message behind the tail, and publishes the commit again
// while there is none, or only foreign ones. refusal is the conflict that the server answered; nil if the answer is
// unknown.
func (l *Log) resolve(ctx context.Context, c *commit, refusal error) {
	cause := refusal // of the last attempt
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		rec, found, err := l.s.once(ctx, getRequest{Seq: l.tailNow() + 1, NextFor: l.subject})
		switch {
		case err == nil && found && rec.hash() == c.hash && !rec.foreign(l.session):
			l.finish(c, rec.stream, nil)
			return
		case err == nil && found && rec.foreign(l.session) && rec.fence() == "":
			// The publish expected the message before this one to be the newest, so it is not stored and never will be.
			if !l.skipForeign(c, rec) {
				return
			}
			refusal, pause = nil, minPause/2
			continue
		case err == nil && (found || conflicting(refusal)):
			l.finish(c, 0, l.conflict(c.First, refusal))
			l.deleteBlobs(ctx, c, found)
			return
		case err == nil:
			stream, err := l.publishAgain(ctx, c)
			if err == nil {
				l.finish(c, stream, nil)
				return
			}
			// A refusal decides nothing yet: the first publish may have been stored in the meantime.
			cause, refusal = err, nil
			if conflicting(err) && ctx.Err() == nil {
				refusal, pause = err, minPause/2
				continue // the message that caused the refusal can be read
			}
		case errors.Is(err, nats.ErrConnectionClosed):
			l.finish(c, 0, &OutcomeError{l.session, c.First, err})
			return
		default:
			cause = err
		}
		l.s.pause(ctx, pause)
		if ctx.Err() != nil {
			l.finish(c, 0, &OutcomeError{l.session, c.First, cause})
			return
		}
	}
}

// publishAgain publishes a commit again, with the same expected sequence.
func (l *Log) publishAgain(ctx context.Context, c *commit) (stream uint64, err error) {
	err = l.s.attempt(ctx, func(ctx context.Context) error {
		m := &nats.Msg{Subject: l.subject, Header: c.msg.Header, Data: c.msg.Data}
		answer, err := l.s.nc.RequestMsgWithContext(ctx, m)
		if err == nil {
			stream, err = parseAck(answer)
		}
		return err
	})
	return stream, err
}

// finish ends the work on a commit: it is stored, or err is final.
func (l *Log) finish(c *commit, stream uint64, err error) {
	l.worked(err, func() { l.stored(c, stream) })
}

// worked ends the work of a goroutine. If err is nil and the log has not failed, it calls next with mu held.
func (l *Log) worked(err error, next func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop = nil
	switch {
	case l.err != nil:
	case err != nil:
		l.fail(err)
	default:
		next()
	}
}

// skipForeign continues the log behind a foreign message: the commit c, which is being stored, and all later ones are
// fenced behind it. It returns false if the log has failed.
func (l *Log) skipForeign(c *commit, rec record) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.skipForeignLocked(rec)
	c.expect(l.tail)
	return true
}

// skipForeignLocked is skipForeign without a commit. mu is held.
func (l *Log) skipForeignLocked(rec record) {
	l.tail = rec.stream
	l.o.Logger.Warn("skipped foreign message in a log", "session", l.session, "stream", rec.stream)
	if l.o.OnForeign != nil {
		l.o.OnForeign(l.session)
	}
}

// deleteBlobs deletes the payloads of a commit that was refused, but not those that were there before: an earlier
// commit of this log with the same data names them. It must be certain that the commit never will be stored. That is so
// if another message was found in its place, or if the log was deleted; a stale leader shows neither.
func (l *Log) deleteBlobs(ctx context.Context, c *commit, found bool) {
	if len(c.blobs) == 0 {
		return
	}
	if tail := l.tailNow(); !found && tail > 0 {
		_, exists, err := l.s.at(ctx, l.session, tail)
		found = err == nil && !exists
	}
	if !found {
		return
	}
	for _, b := range c.blobs {
		if !b.put {
			continue
		}
		if err := l.s.deleteObject(ctx, b.name, 0); err != nil {
			l.o.Logger.Warn("payload of a refused commit not deleted", "session", l.session, "object", b.name, "err", err)
		}
	}
}

// storeBlobs stores the payloads of a commit in the object store and then publishes the commit.
func (l *Log) storeBlobs(ctx context.Context, c *commit) {
	for i, b := range c.blobs {
		put, err := l.s.putBlob(ctx, b.name, b.data)
		if err != nil {
			l.worked(l.failed(c, fmt.Errorf("payload of %d bytes: %w", len(b.data), err)), nil)
			return
		}
		c.blobs[i].data, c.blobs[i].put = nil, put
	}
	l.worked(nil, func() { l.s.publish(l, c) })
}
