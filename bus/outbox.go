package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const (
	// outboxTimeout bounds each method of [Outbox], with its retries while the server cannot be reached.
	outboxTimeout = 15 * time.Second
	// outboxAttempt bounds one attempt to publish, because the acknowledgement may be lost with a connection.
	outboxAttempt = 2 * time.Second
)

// Outbox stores commands that one session sends to another in the inbox of the other session. All methods may be called
// concurrently.
type Outbox struct{ conn *Conn }

// NewOutbox returns an Outbox on c. The caller keeps ownership of c, which must outlive the Outbox.
func NewOutbox(c *Conn) *Outbox { return &Outbox{c} }

// Store returns nil once the server has stored the command. After an error the command may be stored or not; the caller
// can send it again with the same id, because the receiving session applies an id once.
//
// It uses the connection that buffers nothing: a buffered command could be sent long after it was decided, when another
// runner may own the sending session.
func (o *Outbox) Store(ctx context.Context, c schemas.Command) error {
	if err := o.store(ctx, c); err != nil {
		return fmt.Errorf("bus: store %s %s in the inbox of session %.80s: %w", c.Data.CommandKind(), c.ID, c.Session, err)
	}
	return nil
}

// Holds reports whether the inbox of a session contains an unsettled command of a kind. It reads from the stream's
// leader, because a replica may lag behind.
func (o *Outbox) Holds(ctx context.Context, session string, kind schemas.CommandKind) (bool, error) {
	n, err := o.count(ctx, session, kind)
	if err != nil {
		return false, fmt.Errorf("bus: count %s in the inbox of session %.80s: %w", kind, session, err)
	}
	return n > 0, nil
}

func (o *Outbox) count(ctx context.Context, session string, kind schemas.CommandKind) (n int, err error) {
	if err := schemas.CheckSession(session); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, outboxTimeout)
	defer cancel()
	// The wildcard matches every partition.
	filter := fmt.Sprintf("%s.cmd.*.%s.%s", o.conn.subjects.Prefix(), session, kind)
	js, of := o.conn.JetStream(), jetstream.WithSubjectFilter(filter)
	info, err := natsio.LeaderInfo(ctx, js, schemas.StreamCommands, of)
	if err == nil && len(info.State.Subjects) == 0 {
		info, err = natsio.ConfirmedInfo(ctx, js, schemas.StreamCommands, of)
	}
	if err != nil {
		return 0, err
	}
	return len(info.State.Subjects), nil
}

func (o *Outbox) store(ctx context.Context, c schemas.Command) error {
	data, err := schemas.Marshal(c.Data)
	if err = errors.Join(schemas.CheckSession(c.Session), err); err != nil {
		return err
	}
	kind := c.Data.CommandKind()
	msg := nats.NewMsg(o.conn.subjects.Command(c.Session, kind))
	msg.Data = data
	for name, value := range map[string]string{
		schemas.HeaderSpecVersion: schemas.SpecVersion, schemas.HeaderID: c.ID, schemas.HeaderSource: c.Source,
		schemas.HeaderType: schemas.CloudEventType(kind), schemas.HeaderSubject: c.Session,
		schemas.HeaderDataContentType: schemas.ContentJSON, schemas.HeaderTraceParent: c.TraceParent,
	} {
		if value != "" {
			msg.Header[name] = []string{schemas.EncodeHeaderValue(value)}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, outboxTimeout)
	defer cancel()
	for {
		attempt, done := context.WithTimeout(ctx, outboxAttempt)
		_, err := o.conn.Events().PublishMsg(attempt, msg, natsio.UntilLeader())
		done()
		if !natsio.IsAny(err, nats.ErrReconnectBufExceeded, context.DeadlineExceeded) && !natsio.TooMany(err) ||
			!natsio.Wait(ctx, natsio.RetryWait) {
			return err
		}
	}
}
