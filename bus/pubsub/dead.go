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

// maxReason is the longest reason a dead letter carries, in bytes.
const maxReason = 1024

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
}

// NewDead is the dead letter of a message that was delivered by JetStream. It shares the message's header and payload.
func NewDead(session string, raw jetstream.Msg, reason string) Dead {
	d := Dead{Session: session, Subject: raw.Subject(), Reason: reason, Header: raw.Headers(), Data: raw.Data()}
	if md, err := raw.Metadata(); err == nil {
		d.Stream, d.StreamSeq, d.Deliveries = md.Stream, md.Sequence.Stream, md.NumDelivered
	}
	return d
}

// PublishDead stores a dead letter; it has to succeed before the message is acknowledged. Repeated by this process
// within two minutes it is stored once. A message too large for another header is cut, which the letter says.
func PublishDead(ctx context.Context, js jetstream.JetStream, subjects schemas.Subjects, d Dead) error {
	msg := d.message(subjects, js.Conn().MaxPayload())
	if _, err := js.PublishMsg(ctx, msg, natsio.UntilLeader()); err != nil {
		return fmt.Errorf("pubsub: dead letter of %s sequence %d, session %s: %w",
			d.Stream, d.StreamSeq, d.Session, err)
	}
	return nil
}

func (d Dead) message(subjects schemas.Subjects, limit int64) *nats.Msg {
	session := d.Session
	if schemas.CheckSession(session) != nil {
		session = schemas.NoSession
	}
	msg := nats.NewMsg(subjects.Dead(cmp.Or(d.Stream, schemas.NoSession), session))
	msg.Data = d.Data
	for k, v := range d.Header {
		if !serverHeader(k) {
			msg.Header[k] = v
		}
	}
	d.describe(msg.Header)
	over := int64(msg.Size()) - limit
	if over <= 0 {
		return msg
	}
	msg.Header[schemas.HeaderDeadSize] = []string{strconv.Itoa(len(d.Data))}
	over = int64(msg.Size()) - limit
	if over > int64(len(msg.Data)) { // the headers are what is too large
		msg.Header = nats.Header{schemas.HeaderDeadSize: {strconv.Itoa(len(d.Data))}}
		d.describe(msg.Header)
		over = max(int64(msg.Size())-limit, 0)
	}
	msg.Data = msg.Data[:max(int64(len(msg.Data))-over, 0)]
	return msg
}

// describe adds what is known about the message. A letter may die again: then the newest description wins.
func (d Dead) describe(h nats.Header) {
	reason := strings.ToValidUTF8(strings.Join(strings.Fields(d.Reason), " "), "?")
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "")
	}
	for name, value := range map[string]string{
		schemas.HeaderDeadReason:     reason,
		schemas.HeaderDeadStream:     d.Stream,
		schemas.HeaderDeadStreamSeq:  strconv.FormatUint(d.StreamSeq, 10),
		schemas.HeaderDeadSubject:    d.Subject,
		schemas.HeaderDeadDeliveries: strconv.FormatUint(d.Deliveries, 10),
		schemas.HeaderDeadMsgID:      d.Header.Get(jetstream.MsgIDHeader),
	} {
		if value != "" {
			h[name] = []string{value}
		}
	}
	if d.StreamSeq > 0 {
		h[jetstream.MsgIDHeader] = []string{letterID(d.Stream, d.StreamSeq)}
	}
}

// letterKey is known to this process only.
var letterKey = []byte(rand.Text())

// letterID is the Nats-Msg-Id of a letter. Nobody else can know it beforehand, also not from other letters: who took it
// would have the letter dropped as a duplicate.
func letterID(stream string, seq uint64) string {
	id := fmt.Sprintf("%s:%d", stream, seq)
	mac := hmac.New(sha256.New, letterKey)
	mac.Write([]byte(id))
	return fmt.Sprintf("%s:%x", id, mac.Sum(nil)[:16])
}
