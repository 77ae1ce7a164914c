package inbox

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

const (
	attemptTimeout = 5 * time.Second
	// safeAfter is how long a runner has to live on after it has begun a message for the message to be innocent of the
	// losses before.
	safeAfter = 3 * time.Second
	// aloneFor is the same for a suspect, and how long no other suspect is begun beside it: the one that kills its runner
	// does not take the count of the others up with it.
	aloneFor = 2 * time.Second
)

// attempts counts how many runners were lost right after they had begun a message, in the server's own counters: stream
// AGENT_ATTEMPT, a subject per message. Only what a lost runner may have begun is counted, not what is delivered for
// the first time. A message with half of the attempts it may have is a suspect.
type attempts struct {
	conn     *bus.Conn
	log      *slog.Logger
	most     int
	suspects chan struct{} // holds a token while a suspect has just been begun
}

func newAttempts(c *bus.Conn, most int, log *slog.Logger) *attempts {
	return &attempts{c, log, most, make(chan struct{}, 1)}
}

// begin counts an attempt and returns how many runners were lost before. The caller calls end when the attempt has
// ended and the message is to be delivered again. What cannot be counted is begun all the same.
func (a *attempts) begin(ctx context.Context, seq uint64) (lost int, end func()) {
	lost = a.add(ctx, seq, "+1") - 1
	free, safe := func() {}, safeAfter
	if 2*lost >= a.most {
		a.log.Warn("command may have killed its runners, it is begun alone", "seq", seq, "lost", lost)
		a.add(ctx, seq, "-1") // it has not begun
		select {
		case a.suspects <- struct{}{}:
			free, safe = func() { <-a.suspects }, aloneFor
		case <-ctx.Done():
			return lost, func() {}
		}
		a.add(ctx, seq, "+1")
	}
	innocent := time.AfterFunc(safe, func() {
		defer free()
		a.reset(ctx, seq)
	})
	return lost, func() {
		if innocent.Stop() {
			defer free()
			a.add(ctx, seq, "-1")
		}
	}
}

// reset counts a message from zero again.
func (a *attempts) reset(ctx context.Context, seq uint64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptTimeout)
	defer cancel()
	stream, err := a.conn.JetStream().Stream(ctx, schemas.StreamAttempts)
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(a.conn.Subjects().Attempt(seq)))
	}
	a.logged(seq, err)
}

// add changes a message's counter and returns what it is then.
func (a *attempts) add(ctx context.Context, seq uint64, n string) (count int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptTimeout)
	defer cancel()
	msg := nats.NewMsg(a.conn.Subjects().Attempt(seq))
	msg.Header.Set(bus.HeaderIncr, n)
	ack, err := a.conn.JetStream().PublishMsg(ctx, msg)
	if err == nil {
		count, err = strconv.Atoi(ack.Value)
	}
	a.logged(seq, err)
	return count
}

func (a *attempts) logged(seq uint64, err error) {
	if err != nil && !a.conn.NATS().IsClosed() {
		a.log.Warn("attempt not counted", "seq", seq, "err", err)
	}
}
