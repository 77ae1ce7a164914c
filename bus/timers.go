package bus

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
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

// Schedule sets a timer, in place of the session's timer of the same name that this process has set. The name has to be
// a subject token; an error wraps [schemas.ErrSubject] if it is not.
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
	place := placeOf(session, timer.Name)
	msg := nats.NewMsg(t.conn.subjects.Schedule(session, place))
	msg.Data = data
	// Written by hand: WithScheduleAt cuts the moment to whole seconds, which fires up to one second early.
	msg.Header.Set(jetstream.ScheduleHeader, "@at "+at.Format(time.RFC3339Nano))
	msg.Header.Set(jetstream.ScheduleTargetHeader, t.conn.subjects.Due(session, place))
	msg.Header.Set(jetstream.ScheduleTTLHeader, keepDue)
	_, err = t.conn.js.PublishMsg(ctx, msg, natsio.UntilLeader())
	return err
}

// Cancel takes a timer back, whichever process has set it. It is no error if there is none; one that has fired already
// is in the inbox and stays.
func (t *Timers) Cancel(ctx context.Context, session string, name string) error {
	if err := t.cancel(ctx, session, name); err != nil {
		return fmt.Errorf("bus: take back timer %q of session %s: %w", name, session, err)
	}
	return nil
}

func (t *Timers) cancel(ctx context.Context, session, name string) error {
	if err := checkTimer(session, name); err != nil {
		return err
	}
	stream, err := t.conn.js.Stream(ctx, schemas.StreamTimers)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(t.conn.subjects.Schedule(session, "*")))
	if err != nil {
		return err
	}
	for subject := range info.State.Subjects {
		if TimerName(subject) != name {
			continue
		}
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return err
		}
	}
	return nil
}

// TimerName is the name of the timer that waits on a subject.
func TimerName(subject string) string {
	place := subject[strings.LastIndexByte(subject, '.')+1:]
	if i := strings.LastIndexByte(place, '-'); i >= 0 {
		return place[:i]
	}
	return place // as versions before this one set it
}

// placeKey is this process's own.
var placeKey = sync.OnceValue(func() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it never fails
	return key
})

// placeOf is the last token of a timer's subjects: its name and what nobody can guess. Whoever may publish anything can
// have a server answer at a subject that is known, and what is stored there takes a timer's place. So a timer that
// another process has set is not replaced, and fires besides: timers are known by what they are for, and one too many
// wakes the session.
func placeOf(session, name string) string {
	mac := hmac.New(sha256.New, placeKey())
	_, _ = mac.Write([]byte(session + "." + name))
	return name + "-" + hex.EncodeToString(mac.Sum(nil)[:16])
}

func checkTimer(session, name string) error {
	return errors.Join(schemas.CheckSession(session), schemas.CheckToken("timer", name))
}
