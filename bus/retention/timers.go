package retention

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// timerWaits reports whether a timer of a session waits. What lies there and is no schedule never fires: a server
// answered there, because somebody had it answer. It is removed, so that it is looked at once.
func (d *Deleter) timerWaits(ctx context.Context, session string) (waits bool, err error) {
	subjects, err := d.stored(ctx, schemas.StreamTimers, d.subjects().Schedule(session, "*"))
	if err != nil {
		return false, err
	}
	for subject := range subjects {
		m, err := d.timer(ctx, subject)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			continue
		case natsio.Passing(err):
			return true, nil // a user of before may not read it
		case err != nil:
			return false, fmt.Errorf("timer at %s: %w", subject, err)
		case m.Header.Get(jetstream.ScheduleHeader) != "" && !codec.IsAnswer(m.Header, nil):
			return true, nil
		}
		if err := d.purge(ctx, schemas.StreamTimers, subject, jetstream.WithPurgeSequence(m.Sequence+1)); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (d *Deleter) timer(ctx context.Context, subject string) (m *jetstream.RawStreamMsg, err error) {
	s, err := d.conn.JetStream().Stream(ctx, schemas.StreamTimers)
	if err != nil {
		return nil, err
	}
	return s.GetLastMsgForSubject(ctx, subject)
}
