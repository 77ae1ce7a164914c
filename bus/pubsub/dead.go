package pubsub

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const (
	// maxReason is the longest reason a dead letter carries, in bytes.
	maxReason = 1024
	// maxHeader limits the headers of a dead letter. A stream stores no more than 64 KiB, and a message may have as many,
	// without those that describe the letter.
	maxHeader = 32 << 10
)

// Dead is a message that could not be processed, on its way to AGENT_DEAD.
type Dead struct {
	Session    string // an illegal one becomes [schemas.NoSession]
	Stream     string
	StreamSeq  uint64
	Subject    string // under which it was stored
	Deliveries uint64
	Reason     string
	Header     nats.Header // not changed
	Data       []byte
	Keep       int // bytes of Data at most, 0 for all that fits
}

// NewDead returns the dead letter of a message that JetStream has delivered. It shares the message's header and
// payload.
func NewDead(session string, raw jetstream.Msg, reason string) Dead {
	d := Dead{Session: session, Subject: raw.Subject(), Reason: reason, Header: raw.Headers(), Data: raw.Data()}
	if md, err := raw.Metadata(); err == nil {
		d.Stream, d.StreamSeq, d.Deliveries = md.Stream, md.Sequence.Stream, md.NumDelivered
	}
	return d
}

// PublishDead stores a dead letter. It has to succeed before the message is acknowledged. If this process repeats it
// within two minutes, the letter is stored once. A payload that does not fit, or is larger than Keep, is truncated, and
// headers of more than 32 KiB are left out; the letter's header then has the payload's full size. So are single headers
// whose names a client may not send. A letter that is refused all the same is stored without headers and payload of the
// message: otherwise the message would keep those behind it waiting for ever.
func PublishDead(ctx context.Context, js jetstream.JetStream, subjects schemas.Subjects, d Dead) error {
	_, err := js.PublishMsg(ctx, d.message(subjects, js.Conn().MaxPayload()), natsio.UntilLeader())
	if err != nil && ctx.Err() == nil && !natsio.Passing(err) {
		_, err = js.PublishMsg(ctx, d.bare(subjects), natsio.UntilLeader())
	}
	if err != nil {
		return fmt.Errorf("pubsub: dead letter of %s sequence %d, session %s: %w",
			d.Stream, d.StreamSeq, d.Session, err)
	}
	return nil
}

// bare returns the letter without what the message says.
func (d Dead) bare(subjects schemas.Subjects) *nats.Msg {
	session := d.Session
	if schemas.CheckSession(session) != nil {
		session = schemas.NoSession
	}
	msg := nats.NewMsg(subjects.Dead(cmp.Or(d.Stream, schemas.NoSession), session))
	msg.Header[schemas.HeaderDeadSize] = []string{strconv.Itoa(len(d.Data))}
	d.describe(msg.Header)
	return msg
}

func (d Dead) message(subjects schemas.Subjects, limit int64) *nats.Msg {
	msg := d.bare(subjects)
	bare := msg.Header
	msg.Data, msg.Header = d.Data, nats.Header{}
	if d.Keep > 0 && len(d.Data) > d.Keep {
		msg.Data = d.Data[:d.Keep]
		msg.Header[schemas.HeaderDeadSize] = []string{strconv.Itoa(len(d.Data))}
	}
	for k, v := range d.Header {
		if !natsio.Instructs(k) && mayBeSent(k) {
			msg.Header[k] = v
		}
	}
	d.describe(msg.Header)
	if msg.Size()-len(msg.Subject)-len(msg.Data) > maxHeader {
		msg.Header = bare
	}
	over := int64(msg.Size()) - limit
	if over <= 0 {
		return msg
	}
	msg.Header[schemas.HeaderDeadSize] = []string{strconv.Itoa(len(d.Data))}
	over = int64(msg.Size()) - limit
	msg.Data = msg.Data[:max(int64(len(msg.Data))-over, 0)]
	return msg
}

// describe sets the headers of a dead letter. They replace those of a dead letter that has become one again.
func (d Dead) describe(h nats.Header) {
	reason := cut(strings.ToValidUTF8(strings.Join(strings.Fields(d.Reason), " "), "?"))
	for name, value := range map[string]string{
		schemas.HeaderDeadReason:     reason,
		schemas.HeaderDeadStream:     d.Stream,
		schemas.HeaderDeadStreamSeq:  strconv.FormatUint(d.StreamSeq, 10),
		schemas.HeaderDeadSubject:    d.Subject,
		schemas.HeaderDeadDeliveries: strconv.FormatUint(d.Deliveries, 10),
		schemas.HeaderDeadMsgID:      cut(d.Header.Get(jetstream.MsgIDHeader)),
	} {
		if value != "" {
			h[name] = []string{value}
		}
	}
	if d.StreamSeq > 0 {
		h[jetstream.MsgIDHeader] = []string{letterID(d.Stream, d.StreamSeq)}
	}
}

// mayBeSent reports whether nats.go sends a header of this name. It reads others.
func mayBeSent(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"()/,:;<=>?@[\]{}`, r)
	})
}

// cut returns what a header of a letter has of a text.
func cut(text string) string {
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason], "")
}

// letterKey is known to this process only.
var letterKey = []byte(rand.Text())

// letterID returns the Nats-Msg-Id of a letter. No other client can compute it, not even from other letters: a client
// that published a message with that id before would have the letter dropped as a duplicate.
func letterID(stream string, seq uint64) string {
	id := fmt.Sprintf("%s:%d", stream, seq)
	mac := hmac.New(sha256.New, letterKey)
	mac.Write([]byte(id))
	return fmt.Sprintf("%s:%x", id, mac.Sum(nil)[:16])
}
