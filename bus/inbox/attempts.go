package inbox

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const (
	attemptTimeout = 5 * time.Second
	// safeAfter is how long a runner has to live after it has started a message for its count to be reset.
	safeAfter = 3 * time.Second
	// aloneFor is the same for a suspect. No other suspect starts in that time, so that the one that kills its runner
	// does not raise the counts of the others.
	aloneFor = 2 * time.Second
)

// attempts counts how many runners were lost right after they had started a message, in counters of the server: stream
// AGENT_ATTEMPT has a subject for each message. Only messages that a lost runner may have started are counted, not
// those that are delivered for the first time. A message with half of the attempts that it may have is a suspect.
type attempts struct {
	conn     *bus.Conn
	log      *slog.Logger
	most     int
	suspects chan struct{} // holds a token while a suspect has just started
}

func newAttempts(c *bus.Conn, most int, log *slog.Logger) *attempts {
	return &attempts{c, log, most, make(chan struct{}, 1)}
}

// begin counts an attempt and returns how many runners were lost before. The caller calls end when the attempt has
// failed. A message whose attempt cannot be counted starts all the same.
func (a *attempts) begin(ctx context.Context, seq uint64) (lost int, end func()) {
	lost = a.add(ctx, seq, "+1") - 1
	free, safe := func() {}, safeAfter
	if 2*lost >= a.most {
		a.log.Warn("command may have killed its runners, starting it alone", "seq", seq, "lost", lost)
		a.add(ctx, seq, "-1") // it does not start yet
		select {
		case a.suspects <- struct{}{}:
			free, safe = func() { <-a.suspects }, aloneFor
		case <-ctx.Done():
			return lost, func() {}
		}
		a.add(ctx, seq, "+1")
	}
	survived := time.AfterFunc(safe, func() {
		defer free()
		a.reset(ctx, seq)
	})
	return lost, func() {
		if survived.Stop() {
			defer free()
			a.add(ctx, seq, "-1")
		}
	}
}

// reset deletes a message's counter.
func (a *attempts) reset(ctx context.Context, seq uint64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptTimeout)
	defer cancel()
	stream, err := a.conn.JetStream().Stream(ctx, schemas.StreamAttempts)
	if err == nil {
		err = natsio.PurgeSubject(ctx, stream, a.conn.Subjects().Attempt(seq))
	}
	a.logError(seq, err)
}

// add adds n to a message's counter and returns the new count.
func (a *attempts) add(ctx context.Context, seq uint64, n string) (count int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptTimeout)
	defer cancel()
	msg := nats.NewMsg(a.conn.Subjects().Attempt(seq))
	msg.Header.Set(bus.HeaderIncr, n)
	ack, err := a.conn.JetStream().PublishMsg(ctx, msg)
	if err == nil {
		count, err = strconv.Atoi(ack.Value)
	}
	a.logError(seq, err)
	return count
}

func (a *attempts) logError(seq uint64, err error) {
	if err != nil && !a.conn.NATS().IsClosed() {
		a.log.Warn("attempt not counted", "seq", seq, "err", err)
	}
}
