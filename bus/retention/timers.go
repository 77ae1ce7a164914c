package retention

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// timerWaits reports whether a timer of a session waits. A message there that is not a schedule is a server's answer
// that a client directed there. It never fires, and is removed so that it is checked only once.
func (d *Deleter) timerWaits(ctx context.Context, session string) (waits bool, err error) {
	subjects, err := d.stored(ctx, schemas.StreamTimers, d.subjects().Schedule(session, "*"))
	if err != nil {
		return false, err
	}
	for subject := range subjects {
		if !natsio.Literal(subject) { // not a timer; as a filter it could match others
			continue
		}
		seq, schedule, err := d.timer(ctx, subject)
		switch {
		case natsio.Passing(err):
			return true, nil // roles of earlier versions have no permission to read it
		case err != nil:
			return false, fmt.Errorf("timer at %s: %w", subject, err)
		case schedule:
			return true, nil
		case seq == 0:
			continue
		}
		if err := d.purge(ctx, schemas.StreamTimers, subject, jetstream.WithPurgeSequence(seq+1)); err != nil {
			return false, err
		}
	}
	return false, nil
}

// timer returns the sequence of the newest message on a timer's subject, 0 if there is none, and whether it is a
// schedule, which only this stream can store.
func (d *Deleter) timer(ctx context.Context, subject string) (seq uint64, schedule bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, natsio.AwayTimeout)
	defer cancel()
	m, ok, err := natsio.Last(ctx, d.conn.JetStream(), schemas.StreamTimers, subject)
	if err != nil || !ok {
		return 0, false, err
	}
	return m.Sequence, m.Header.Get(jetstream.ScheduleHeader) != "", nil
}
