package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/pubsub"
	"github.com/loopbus/loopbus/schemas"
)

// Pauses before a delivery that failed is tried again. They double.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 30 * time.Second
	// A session that another runner extends is tried again sooner: that runner is on its way out, or this one is about to
	// learn that the partition has moved.
	firstConflictPause = 20 * time.Millisecond
	lastConflictPause  = time.Second
)

// errLeans is a [context.Canceled], so that nobody takes it for a failure.
var errLeans = fmt.Errorf("inbox: another command of the session may be settled elsewhere: %w", context.Canceled)

// fly delivers a message until it is settled, or not this runner's any more. A delivery has no other goroutine.
func (in *Inbox) fly(ctx context.Context, f *flight) {
	defer in.land(f)
	if f.before != nil {
		select {
		case <-f.before:
		case <-ctx.Done():
			return
		}
	}
	failures, conflicts := 0, 0
	for {
		if (failures+conflicts > 0 || in.stale(f) || f.lacksPayload()) && in.gone(ctx, f) {
			return
		}
		err := in.try(ctx, f, failures)
		if err == nil {
			if in.acknowledge(f) {
				return
			}
			err = errLeans
		}
		var pause time.Duration
		if isForAnother(err) {
			pause = doubled(firstConflictPause, lastConflictPause, conflicts)
			conflicts++
			in.doubt(f)
			in.o.Logger.Debug("delivery given up", "session", f.session, "seq", f.seq, "err", err)
		} else {
			if failures > 0 { // the first time at once
				pause = doubled(firstPause, lastPause, failures-1)
			}
			failures++
			in.logFailure(ctx, f, failures, err)
		}
		if !in.pause(ctx, f, pause) {
			return
		}
		in.metrics.count("retried")
	}
}

func doubled(first, last time.Duration, times int) time.Duration {
	const most = 10 // keeps the shift from overflowing
	return min(first<<min(times, most), last)
}

// isForAnother reports whether an error says that another runner is to deal with the message, or this one later.
func isForAnother(err error) bool {
	return errors.Is(err, schemas.ErrConflict) || errors.Is(err, context.Canceled)
}

func (in *Inbox) logFailure(ctx context.Context, f *flight, failures int, err error) {
	if in.isDraining() || ctx.Err() != nil || errors.Is(err, ErrMoved) {
		return
	}
	level := slog.LevelDebug
	if in.complaints.first(f.session, err.Error(), time.Now()) {
		level = slog.LevelError
	}
	in.o.Logger.Log(ctx, level, "delivery failed", "session", f.session, "seq", f.seq, "attempt", failures, "err", err)
}

// pause waits before the next attempt. It returns false if there is to be none: the message comes again, here or
// elsewhere.
func (in *Inbox) pause(ctx context.Context, f *flight, d time.Duration) bool {
	over, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !in.attempting(f, cancel) {
		return false
	}
	in.rests(f, d)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		in.resumes(f)
		return !in.isDraining()
	case <-over.Done():
	case <-in.draining:
	}
	return false
}

// attempting says how the attempt that begins now is cut off. It returns false if the flight is over.
func (in *Inbox) attempting(f *flight, cancel context.CancelCauseFunc) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	f.cancel, f.ended = cancel, in.ended
	return !f.dropped && !in.isDraining()
}

// acknowledge settles a message. It returns false if it has to be tried once more before.
func (in *Inbox) acknowledge(f *flight) (over bool) {
	in.mu.Lock()
	msg := f.msg
	over = f.dropped || !in.leans(f)
	settled := over && !f.dropped
	if settled {
		f.epoch.acked++
		in.enterLocked(f)
		in.forget(f)
	}
	in.mu.Unlock()
	if !settled {
		return over
	}
	if err := msg.Ack(); err != nil {
		in.o.Logger.Debug("acknowledgement not sent, the command will be delivered again", "seq", f.seq, "err", err)
	}
	in.metrics.count("acknowledged")
	return true
}

// leans reports whether a command that was delivered may have left its work to another flight of the session which
// another runner has settled: if this runner acknowledged the command and died, nothing would wake the session. A
// flight that is unsure itself may be settled: its acknowledgement has no effect, and it comes again. mu is held.
func (in *Inbox) leans(f *flight) bool {
	if _, unsure := in.unsure[f]; unsure {
		return false
	}
	if f.ended != in.ended {
		return true
	}
	for other := range in.unsure {
		if other.queue == f.queue {
			return true
		}
	}
	return false
}

// try delivers the message once, or rejects it if it is no command or has failed too often.
func (in *Inbox) try(ctx context.Context, f *flight, failures int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !in.attempting(f, cancel) {
		return ErrMoved
	}
	if f.counted && failures == 0 {
		lost, end := in.attempts.begin(ctx, f.seq)
		defer end()
		if lost >= in.o.MaxDeliver {
			return in.reject(ctx, f, &codec.RejectError{Code: schemas.RejectDelivery,
				Reason: fmt.Sprintf("given up: %d runners that had begun it were lost", lost)})
		}
	}
	err := in.deliver(ctx, f)
	reason := new(codec.RejectError)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &reason):
		return in.reject(ctx, f, reason)
	case ctx.Err() != nil:
		return errors.Join(err, context.Cause(ctx))
	case !isForAnother(err) && failures+1 >= in.o.MaxDeliver:
		return in.reject(ctx, f, &codec.RejectError{Code: schemas.RejectDelivery,
			Reason: fmt.Sprintf("given up after %d attempts: %v", failures+1, err)})
	}
	return err
}

// deliver hands the command to the handler. A panic is its error.
func (in *Inbox) deliver(ctx context.Context, f *flight) (err error) {
	defer func() {
		if p := recover(); p != nil {
			in.o.Logger.Error("panic in a delivery", "session", f.session, "seq", f.seq, "panic", p,
				"stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	cmd, err := in.decode(ctx, f)
	if err != nil {
		return err
	}
	var replying sync.WaitGroup
	defer replying.Wait()
	reply := sync.OnceFunc(func() { in.reply(ctx, f, cmd.ID) })
	err = in.handler.Deliver(ctx, cmd, func() {
		in.enter(f)
		replying.Go(reply)
	})
	if err == nil {
		reply()
	}
	return err
}

// decode returns the command, or an error whose *codec.RejectError says why it is none. Another error is about data
// that the command refers to and that cannot be read now.
func (in *Inbox) decode(ctx context.Context, f *flight) (schemas.Command, error) {
	if f.lacksPayload() {
		return schemas.Command{}, errNotRead
	}
	if size := len(f.raw.Data()); size > in.o.MaxCommandBytes {
		return schemas.Command{}, &codec.RejectError{Code: schemas.RejectTooLarge,
			Reason: fmt.Sprintf("the payload has %d bytes, more than %d", size, in.o.MaxCommandBytes)}
	}
	if _, err := replyTo(f.raw.Headers()); err != nil {
		return schemas.Command{}, err
	}
	if name := f.raw.Headers().Get(jetstream.StreamHeader); name != "" { // a consumer adds none
		return schemas.Command{}, &codec.RejectError{Code: schemas.RejectForeign,
			Reason: fmt.Sprintf("it is a message that the stream %.40q had", name)}
	}
	session, kind, err := in.conn.Subjects().ParseCommand(f.raw.Subject())
	if err != nil {
		return schemas.Command{}, &codec.RejectError{Code: schemas.RejectInvalid, Reason: err.Error()}
	}
	header, data, err := in.referred(ctx, kind, f.raw.Headers(), f.raw.Data())
	if err != nil {
		return schemas.Command{}, err
	}
	return codec.DecodeCommand(session, kind, header, data, codec.StoredID(f.seq), f.stored)
}

// reject tells the session, if it has a legal id, and keeps a copy in AGENT_DEAD. Of what is no client's the session is
// not told: it has no sender who waits for an answer, and whoever had it sent must not write into the session's log.
func (in *Inbox) reject(ctx context.Context, f *flight, why *codec.RejectError) error {
	ctx, cancel := context.WithTimeout(ctx, in.o.RejectTimeout)
	defer cancel()
	session, kind, err := in.conn.Subjects().ParseCommand(f.raw.Subject())
	if err == nil && why.Code != schemas.RejectForeign {
		id := codec.CommandID(f.raw.Headers(), f.seq)
		if cmd, err := in.decode(ctx, f); err == nil {
			id = cmd.ID // a command that was given up: the log may know it
		}
		r := schemas.CommandRejected{CommandID: id, Kind: shortKind(kind), Code: why.Code, Reason: why.Reason,
			StreamSeq: f.seq}
		if err := in.handler.Reject(ctx, session, r); err != nil {
			return fmt.Errorf("inbox: reject %s %s of session %s (%s): %w", shortKind(kind), id, session, why.Code, err)
		}
		in.reply(ctx, f, id)
	}
	if err := pubsub.PublishDead(ctx, in.conn.JetStream(), in.conn.Subjects(),
		pubsub.NewDead(session, f.raw, why.Error())); err != nil {
		return err
	}
	in.o.Logger.Info("command rejected", "session", session, "kind", shortKind(kind), "seq", f.seq, "code", why.Code)
	if why.Code == schemas.RejectForeign {
		in.metrics.count("foreign")
	} else {
		in.metrics.count("rejected")
	}
	return nil
}

// maxKind is how much of an unknown kind is repeated to its session.
const maxKind = 64

func shortKind(kind schemas.CommandKind) schemas.CommandKind {
	if len(kind) <= maxKind {
		return kind
	}
	return schemas.CommandKind(strings.ToValidUTF8(string(kind[:maxKind]), "")) + "…"
}
