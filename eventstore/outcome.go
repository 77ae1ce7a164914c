package eventstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// OutcomeError says that nobody knows whether the event, and those after it in its commit, were stored: the server
// could not be reached for long enough. A writer that opens the session again will see.
type OutcomeError struct {
	Session string
	Seq     uint64
	Cause   error // what the last attempt to find out met
}

// Error names session, sequence and cause.
func (e *OutcomeError) Error() string {
	return fmt.Sprintf("eventstore: append session %s seq %d, outcome unknown: %v", e.Session, e.Seq, e.Cause)
}

// Unwrap returns the cause.
func (e *OutcomeError) Unwrap() error { return e.Cause }

// unknown hands a commit whose fate is unknown to a goroutine that finds out. mu is held.
func (l *Log) unknown(c *commit, cause error) {
	l.token = 0
	if l.timer != nil {
		l.timer.Stop()
	}
	if !unavailable(cause) && !errors.Is(cause, errAnswer) { // refused by the client itself: too large, connection closed
		l.fail(l.failed(c, cause))
		return
	}
	var refusal *jetstream.APIError
	text := "append without an answer, finding out"
	if errors.As(cause, &refusal) {
		text = "append refused, trying again: the stream may be full"
	}
	l.o.Logger.Warn(text, "session", l.session, "seq", c.First, "last", c.Last, "err", cause)
	l.work(func(ctx context.Context) { l.findOut(ctx, c, nil) })
}

// work runs f in a goroutine that lasts at most OutcomeTimeout and ends when the log fails or is closed. mu is held.
func (l *Log) work(f func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), l.o.OutcomeTimeout)
	l.stop = cancel
	go func() {
		defer cancel()
		f(ctx)
	}()
}

// findOut reads back what is stored at the place of a commit, and publishes again while nothing is, or only what is
// foreign. refusal is the server's, nil if its answer is not known.
func (l *Log) findOut(ctx context.Context, c *commit, refusal error) {
	cause := refusal // what the last attempt met
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		rec, found, err := l.s.once(ctx, getRequest{Seq: l.tailNow() + 1, NextFor: l.subject}) // the first behind
		switch {
		case err == nil && found && rec.hash() == c.hash && !rec.foreign(l.session):
			l.settle(c, rec.stream, nil)
			return
		case err == nil && found && rec.foreign(l.session) && rec.fence() == "":
			// What was published before expects the message before this one, so it is not stored and will not be.
			if !l.pass(c, rec) {
				return
			}
			refusal, pause = nil, minPause/2
			continue
		case err == nil && (found || outdated(refusal)):
			l.settle(c, 0, l.conflict(c.First, refusal))
			l.withdraw(ctx, c, found)
			return
		case err == nil:
			stream, err := l.publishAgain(ctx, c)
			if err == nil {
				l.settle(c, stream, nil)
				return
			}
			// Also when refused: by our own first attempt, which was stored in between, or by another writer's.
			cause, refusal = err, nil
			if outdated(err) && ctx.Err() == nil {
				refusal, pause = err, minPause/2
				continue // what it was refused for is there to read
			}
		case errors.Is(err, nats.ErrConnectionClosed):
			l.settle(c, 0, &OutcomeError{l.session, c.First, err})
			return
		default:
			cause = err
		}
		l.s.pause(ctx, pause)
		if ctx.Err() != nil {
			l.settle(c, 0, &OutcomeError{l.session, c.First, cause})
			return
		}
	}
}

func (l *Log) headNow() position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// publishAgain publishes a commit with the expectation it had before.
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

// settle ends the work on a commit: it is stored, or err is final.
func (l *Log) settle(c *commit, stream uint64, err error) {
	l.worked(err, func() { l.stored(c, stream) })
}

// worked ends a goroutine's work: err is final, or it goes on with next.
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

// withdraw deletes the payloads of a commit that is not in the log and will not be: nothing else names them. That is
// certain where something else was found in its place, or where the log was deleted: a stale leader shows neither.
func (l *Log) withdraw(ctx context.Context, c *commit, found bool) {
	if len(c.blobs) == 0 {
		return
	}
	if tail := l.tailNow(); !found && tail > 0 {
		_, there, err := l.keep.at(ctx, l.session, tail)
		found = err == nil && !there
	}
	for _, b := range c.blobs {
		if !found {
			return
		}
		if err := l.s.deleteObject(ctx, b.name); err != nil {
			l.o.Logger.Warn("payload of a refused commit left behind", "session", l.session, "object", b.name, "err", err)
		}
	}
}

// storeBlobs puts the large payloads of a commit into the object store and then publishes the commit.
func (l *Log) storeBlobs(ctx context.Context, c *commit) {
	for i, b := range c.blobs {
		if err := l.s.putBlob(ctx, b.name, b.data); err != nil {
			l.worked(l.failed(c, fmt.Errorf("payload of %d bytes: %w", len(b.data), err)), nil)
			return
		}
		c.blobs[i].data = nil
	}
	l.worked(nil, func() {
		c.put = true
		l.keep.publish(l, c)
	})
}
