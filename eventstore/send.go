package eventstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

// sendFirst begins to store the first entry of the queue. mu is held.
func (l *Log) sendFirst() {
	ent := l.queue[0]
	if ent.blob != nil {
		l.work(func(ctx context.Context) { l.storeBlob(ctx, ent) })
		return
	}
	l.publish(ent)
}

// publish sends an entry; the answer comes to answered, or lost is called. mu is held.
func (l *Log) publish(ent *entry) {
	ent.expect(l.head.stream)
	token, reply := l.s.acks.expect(l)
	ent.msg.Reply = reply
	l.token, l.sent = token, time.Now()
	if err := l.s.nc.PublishMsg(&ent.msg); err != nil {
		l.s.acks.forget(token)
		l.unknown(ent, err)
		return
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(l.s.o.AppendTimeout, l.timedOut)
	} else {
		l.timer.Reset(l.s.o.AppendTimeout)
	}
}

// answered takes the answer to the publish with this token.
func (l *Log) answered(token uint64, m *nats.Msg) {
	stream, err := parseAck(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token != token {
		return
	}
	l.token = 0
	ent := l.queue[0]
	switch {
	case err == nil:
		l.stored(ent, stream)
	case refused(err):
		// Published once and refused: it is not in the log, whatever is.
		l.fail(l.conflict(ent, err))
	case unavailable(err) || errors.Is(err, errAnswer):
		l.unknown(ent, err)
	default:
		l.fail(fmt.Errorf("eventstore: append session %s seq %d: %w", l.session, ent.seq, err))
	}
}

// lost is called when no answer will come for the publish with this token.
func (l *Log) lost(token uint64, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token == token {
		l.unknown(l.queue[0], cause)
	}
}

func (l *Log) timedOut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The timer may have fired for the publish before.
	if l.token != 0 && time.Since(l.sent) >= l.s.o.AppendTimeout {
		l.s.acks.forget(l.token)
		l.unknown(l.queue[0], nats.ErrTimeout)
	}
}

// stored takes an entry off the queue and begins with the next. mu is held.
func (l *Log) stored(ent *entry, stream uint64) {
	l.head, l.proven = position{ent.seq, stream}, l.sent
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.bytes -= ent.size
	if l.space != nil {
		close(l.space)
		l.space = nil
	}
	for len(l.flushes) > 0 && l.flushes[0].seq <= ent.seq {
		l.flushes[0].done <- nil
		l.flushes = l.flushes[1:]
	}
	if len(l.queue) > 0 {
		l.sendFirst()
		return
	}
	l.queue, l.flushes = nil, nil
	if l.timer != nil {
		l.timer.Stop()
	}
}

// fail makes err final and wakes everybody. mu is held.
func (l *Log) fail(err error) {
	if l.err != nil {
		return
	}
	l.err = err
	if l.token != 0 {
		l.s.acks.forget(l.token)
		l.token = 0
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.stop != nil {
		l.stop()
	}
	for _, f := range l.flushes {
		f.done <- err
	}
	if l.space != nil {
		close(l.space)
	}
	l.queue, l.bytes, l.flushes, l.space = nil, 0, nil, nil
}

func (l *Log) conflict(ent *entry, cause error) error {
	l.s.replication.forget()
	return &schemas.ConflictError{Session: l.session, Seq: ent.seq, Cause: cause}
}
