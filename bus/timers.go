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
	"math"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// keepDue is how long the stream keeps a fired timer after the server has published it to the inbox.
const keepDue = "1h"

// Timers wakes sessions at a given time. The NATS server stores a timer and publishes it to the session's inbox when it
// is due, or after its restart if it was down at that time. A timer fires up to half a second late, and never early.
// All methods may be called concurrently.
type Timers struct{ conn *Conn }

// NewTimers returns Timers on c. The caller keeps ownership of c, which must outlive the Timers.
func NewTimers(c *Conn) *Timers { return &Timers{c} }

// storedTimer is the payload of a timer command. Its id is derived from the timer and its time. So every delivery has
// the same id, and a timer that is set again for another time has a different one.
type storedTimer struct {
	ID string `json:"id"`
	schemas.Timer
}

// Schedule sets a timer. It replaces the session's timer of the same name if this process has set that one. The name
// must be a subject token; if it is not, the error wraps [schemas.ErrSubject].
func (t *Timers) Schedule(ctx context.Context, session string, at time.Time, timer schemas.Timer) error {
	err := t.schedule(ctx, session, at, timer)
	if err != nil {
		return fmt.Errorf("bus: set timer %q of session %s: %w", timer.Name, session, err)
	}
	return nil
}

// latestSchedule is the latest time of a schedule. Servers count nanoseconds in 64 bits; they take a later time for one
// that has passed.
var latestSchedule = time.Unix(0, math.MaxInt64).UTC()

func (t *Timers) schedule(ctx context.Context, session string, at time.Time, timer schemas.Timer) error {
	if err := checkTimer(session, timer.Name); err != nil {
		return err
	}
	if at = at.UTC(); at.After(latestSchedule) {
		at = latestSchedule
	}
	id := fmt.Sprintf("timer-%s-%s-%d", timer.Name, timer.RunID, at.UnixMilli())
	data, err := json.Marshal(storedTimer{ID: id, Timer: timer})
	if err != nil {
		return err
	}
	token := timerToken(session, timer.Name)
	msg := nats.NewMsg(t.conn.subjects.Schedule(session, token))
	msg.Data = data
	// Set without WithScheduleAt, which truncates the time to seconds: the timer would fire up to one second early.
	msg.Header.Set(jetstream.ScheduleHeader, "@at "+at.Format(time.RFC3339Nano))
	msg.Header.Set(jetstream.ScheduleTargetHeader, t.conn.subjects.Due(session, token))
	msg.Header.Set(jetstream.ScheduleTTLHeader, keepDue)
	_, err = t.conn.js.PublishMsg(ctx, msg, natsio.UntilLeader())
	return err
}

// Cancel deletes a session's timers of a name, whichever process has set them. It is no error if there is none. A timer
// that has fired is in the inbox, and Cancel does not remove it.
func (t *Timers) Cancel(ctx context.Context, session string, name string) error {
	if err := t.cancel(ctx, session, name); err != nil {
		return fmt.Errorf("bus: cancel timer %q of session %s: %w", name, session, err)
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
	info, err := natsio.LeaderInfo(ctx, t.conn.js, schemas.StreamTimers,
		jetstream.WithSubjectFilter(t.conn.subjects.Schedule(session, "*")))
	if err != nil {
		return err
	}
	for subject := range info.State.Subjects {
		if TimerName(subject) != name {
			continue
		}
		if err := natsio.PurgeSubject(ctx, stream, subject); err != nil {
			return err
		}
	}
	return nil
}

// TimerName returns the name of the timer that is stored on a subject.
func TimerName(subject string) string {
	token := subject[strings.LastIndexByte(subject, '.')+1:]
	if i := strings.LastIndexByte(token, '-'); i >= 0 {
		return token[:i]
	}
	return token // earlier versions used the name alone
}

// tokenKey is the secret of this process that [timerToken] uses.
var tokenKey = sync.OnceValue(func() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it never fails
	return key
})

// timerToken returns the last token of a timer's subjects: its name and a suffix that clients cannot guess. A client
// that may publish any message can direct an answer of the server to a known subject, and a message that is stored
// there would replace the timer. Because every process has its own suffixes, a timer does not replace the one that
// another process has set, and both fire. That does no harm: a timer names its purpose, and an extra one only wakes the
// session.
func timerToken(session, name string) string {
	mac := hmac.New(sha256.New, tokenKey())
	_, _ = mac.Write([]byte(session + "." + name))
	return name + "-" + hex.EncodeToString(mac.Sum(nil)[:16])
}

func checkTimer(session, name string) error {
	return errors.Join(schemas.CheckSession(session), schemas.CheckToken("timer", name))
}
