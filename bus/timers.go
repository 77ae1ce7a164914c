package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// keepDue is how long a timer that was due is kept after it was published to the inbox.
const keepDue = "1h"

// Timers wakes sessions at a moment: the server keeps the timer and puts it into the session's inbox when it is due, or
// when it is up again if it was down then. It is late by up to half a second, and never early. All methods may be
// called concurrently.
type Timers struct{ conn *Conn }

// NewTimers returns Timers on c, which stays the caller's and has to outlive it.
func NewTimers(c *Conn) *Timers { return &Timers{c} }

// storedTimer is the payload of a timer command. Its id is made of the timer and its moment, so that every delivery has
// the same, and a timer of the same name that is set again has another.
type storedTimer struct {
	ID string `json:"id"`
	schemas.Timer
}

// Schedule sets a timer, in place of the session's timer of the same name. The name has to be a subject token; an error
// wraps [schemas.ErrSubject] if it is not.
func (t *Timers) Schedule(ctx context.Context, session string, at time.Time, timer schemas.Timer) error {
	err := t.schedule(ctx, session, at, timer)
	if err != nil {
		return fmt.Errorf("bus: set timer %q of session %s: %w", timer.Name, session, err)
	}
	return nil
}

func (t *Timers) schedule(ctx context.Context, session string, at time.Time, timer schemas.Timer) error {
	if err := checkTimer(session, timer.Name); err != nil {
		return err
	}
	at = at.UTC()
	id := fmt.Sprintf("timer-%s-%s-%d", timer.Name, timer.RunID, at.UnixMilli())
	data, err := json.Marshal(storedTimer{ID: id, Timer: timer})
	if err != nil {
		return err
	}
	msg := nats.NewMsg(t.conn.subjects.Schedule(session, timer.Name))
	msg.Data = data
	// Written by hand: WithScheduleAt cuts the moment to whole seconds, which fires up to one second early.
	msg.Header.Set(jetstream.ScheduleHeader, "@at "+at.Format(time.RFC3339Nano))
	msg.Header.Set(jetstream.ScheduleTargetHeader, t.conn.subjects.Due(session, timer.Name))
	msg.Header.Set(jetstream.ScheduleTTLHeader, keepDue)
	_, err = t.conn.js.PublishMsg(ctx, msg, natsio.UntilLeader())
	return err
}

// Cancel takes a timer back. It is no error if there is none; one that has fired already is in the inbox and stays.
func (t *Timers) Cancel(ctx context.Context, session string, name string) error {
	err := checkTimer(session, name)
	var stream jetstream.Stream
	if err == nil {
		stream, err = t.conn.js.Stream(ctx, schemas.StreamTimers)
	}
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(t.conn.subjects.Schedule(session, name)))
	}
	if err != nil {
		return fmt.Errorf("bus: take back timer %q of session %s: %w", name, session, err)
	}
	return nil
}

func checkTimer(session, name string) error {
	return errors.Join(schemas.CheckSession(session), schemas.CheckToken("timer", name))
}
