package eventstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// OutcomeError says that nobody knows whether an event was stored: the server could not be reached for long enough.
// Whoever opens the session again will see.
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

// unknown hands an entry whose fate is unknown to a goroutine that finds out. mu is held.
func (l *Log) unknown(ent *entry, cause error) {
	l.token = 0
	if l.timer != nil {
		l.timer.Stop()
	}
	if !unavailable(cause) && !errors.Is(cause, errAnswer) { // refused by the client itself: too large, connection closed
		l.fail(fmt.Errorf("eventstore: append session %s seq %d: %w", l.session, ent.seq, cause))
		return
	}
	var refusal *jetstream.APIError
	if errors.As(cause, &refusal) {
		l.s.o.Logger.Warn("append refused, trying again: the stream may be full", "session", l.session, "seq", ent.seq, "err", cause)
	} else {
		l.s.o.Logger.Warn("append without an answer, finding out", "session", l.session, "seq", ent.seq, "err", cause)
	}
	l.work(func(ctx context.Context) { l.findOut(ctx, ent) })
}

// work runs f in a goroutine that lasts at most OutcomeTimeout and ends when the log fails or is closed. mu is held.
func (l *Log) work(f func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), l.s.o.OutcomeTimeout)
	l.stop = cancel
	go func() {
		defer cancel()
		f(ctx)
	}()
}

// findOut reads back what is stored at the place of an entry, and publishes again while nothing is.
func (l *Log) findOut(ctx context.Context, ent *entry) {
	hash, expected := ent.hash(), l.headNow()
	var cause error // what the last attempt met
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		rec, found, err := l.readBack(ctx, expected.stream)
		switch {
		case err == nil && found && rec.hash() == hash:
			l.settle(ent, rec.stream, nil)
			return
		case err == nil && found:
			l.settle(ent, 0, l.conflict(ent, nil))
			return
		case err == nil:
			stream, err := l.publishAgain(ctx, ent)
			if err == nil {
				l.settle(ent, stream, nil)
				return
			}
			// Also when refused: by our own first attempt, which was stored in between, or by somebody else's.
			cause = err
		case errors.Is(err, nats.ErrConnectionClosed):
			l.settle(ent, 0, &OutcomeError{l.session, ent.seq, err})
			return
		default:
			cause = err
		}
		l.s.pause(ctx, pause)
		if ctx.Err() != nil {
			l.settle(ent, 0, &OutcomeError{l.session, ent.seq, cause})
			return
		}
	}
}

func (l *Log) headNow() position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// readBack returns the first message of the session after a place in the stream.
func (l *Log) readBack(ctx context.Context, after uint64) (rec record, found bool, err error) {
	err = l.s.attempt(ctx, func(ctx context.Context) error {
		rec, found, err = l.s.newest(ctx, getRequest{Seq: after + 1, NextFor: l.subject})
		return err
	})
	return rec, found, err
}

// publishAgain publishes an entry with the expectation it had before.
func (l *Log) publishAgain(ctx context.Context, ent *entry) (stream uint64, err error) {
	err = l.s.attempt(ctx, func(ctx context.Context) error {
		m := &nats.Msg{Subject: l.subject, Header: ent.msg.Header, Data: ent.msg.Data}
		answer, err := l.s.nc.RequestMsgWithContext(ctx, m)
		if err == nil {
			stream, err = parseAck(answer)
		}
		return err
	})
	return stream, err
}

// settle ends the work on an entry: it is stored, or err is final.
func (l *Log) settle(ent *entry, stream uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop = nil
	switch {
	case l.err != nil:
	case err != nil:
		l.fail(err)
	default:
		l.stored(ent, stream)
	}
}

// storeBlob puts the payload of an entry into the object store and then publishes the entry.
func (l *Log) storeBlob(ctx context.Context, ent *entry) {
	err := l.s.retry(ctx, func(ctx context.Context) error { return l.s.putBlob(ctx, blobName(ent.blob), ent.blob) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop = nil
	switch {
	case l.err != nil:
	case err != nil:
		l.fail(fmt.Errorf("eventstore: append session %s seq %d: payload of %d bytes: %w", l.session, ent.seq, ent.size, err))
	default:
		ent.blob = nil
		l.publish(ent)
	}
}
