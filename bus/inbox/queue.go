package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const (
	// ackWait is for ever: what is in flight comes again with the next consumer, and never by a clock.
	ackWait = 365 * 24 * time.Hour
	// A request for messages is renewed in pullExpiry. Without a word of the consumer for twice pullHeartbeat it is gone.
	pullExpiry    = 10 * time.Second
	pullHeartbeat = time.Second
	apiTimeout    = 5 * time.Second // of one request about consumers
	// codeOverlap is the server's refusal of a consumer for what another consumer of the work queue has already.
	codeOverlap jetstream.ErrorCode = 10100
)

// queue is the stream AGENT_CMD as a [reader.Reader] needs it.
type queue struct{ *Inbox }

// Create keeps the consumer's state in memory: the queue itself is on disk, and what is lost with the server is only
// what it had delivered to whom. MaxDeliver stays open: the server would keep a message that it does not deliver any
// more for ever, out of sight. Giving up is the inbox's own business.
func (q queue) Create(ctx context.Context, c *reader.Consumer) (waiting uint64, err error) {
	if c.Unverified { // a status may be in the way
		if err := q.clearStatuses(ctx); err != nil {
			return 0, err
		}
	}
	config := jetstream.ConsumerConfig{
		Durable: c.Name, Description: "a runner's share of the inbox", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: ackWait, MaxAckPending: q.o.MaxInFlight, MaxDeliver: -1, MemoryStorage: true,
	}
	for _, n := range c.Reads {
		config.FilterSubjects = append(config.FilterSubjects, fmt.Sprintf("%s.cmd.%d.*.*", q.conn.Subjects().Prefix(), n))
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	made, err := q.stream.CreateConsumer(ctx, config)
	switch {
	case natsio.HasCode(err, codeOverlap):
		return 0, reader.ErrOverlap
	case err != nil:
		return 0, fmt.Errorf("inbox: consumer %s of %s: %w", c.Name, schemas.StreamCommands, err)
	}
	q.consumer = made
	return made.CachedInfo().NumPending, nil
}

func (q queue) Consume(c *reader.Consumer) (err error) {
	q.consuming, err = q.consumer.Consume(func(msg jetstream.Msg) { q.receive(c, msg) },
		jetstream.PullMaxMessages(pullMessages), jetstream.PullExpiry(pullExpiry), jetstream.PullHeartbeat(pullHeartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { q.reader.Break(c, err) }))
	if err != nil {
		return fmt.Errorf("inbox: consume from %s: %w", c.Name, err)
	}
	return nil
}

func (q queue) receive(c *reader.Consumer, msg jetstream.Msg) {
	md, err := msg.Metadata()
	if err != nil {
		q.o.Logger.Error("message without metadata", "subject", msg.Subject(), "err", err)
		return
	}
	session, kind, _ := q.conn.Subjects().ParseCommand(msg.Subject())
	q.reader.Receive(c, md.Sequence.Consumer, &reader.Message{
		Seq: md.Sequence.Stream, Partition: partitionOf(q.conn.Subjects(), msg.Subject()), Session: session,
		Presses: presses(kind),
		Body:    &body{subject: msg.Subject(), stored: md.Timestamp, header: msg.Headers(), data: msg.Data()},
	}, msg.Reply())
}

// presses says which kinds continue what has begun: they go before those that may begin a run of a session at rest.
func presses(kind schemas.CommandKind) bool {
	switch kind {
	case schemas.CommandPrompt, schemas.CommandContinue, schemas.CommandCompact, schemas.CommandNavigate,
		schemas.CommandBranch:
		return false
	}
	return true
}

// partitionOf is the partition in the subject of a stored message, -1 if there is none.
func partitionOf(subjects schemas.Subjects, subject string) int {
	token, _, _ := strings.Cut(strings.TrimPrefix(subject, subjects.Prefix()+".cmd."), ".")
	n, err := strconv.Atoi(token)
	if err != nil {
		return -1
	}
	return n
}

func (q queue) Stop() {
	if q.consuming != nil {
		q.consuming.Stop()
	}
}

func (q queue) Delete(ctx context.Context, name string) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	err = q.stream.DeleteConsumer(ctx, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Names asks for the names and not the list, for which a cluster asks the leader of every consumer.
func (q queue) Names(ctx context.Context) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	list := q.stream.ConsumerNames(ctx)
	for name := range list.Name() {
		names = append(names, name)
	}
	return names, list.Err()
}

func (q queue) Counts(ctx context.Context, name string) (delivered, settled uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	c, err := q.stream.Consumer(ctx, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return 0, 0, reader.ErrGone
	}
	if err != nil {
		return 0, 0, err
	}
	info := c.CachedInfo()
	return info.Delivered.Consumer, info.Delivered.Consumer - uint64(info.NumAckPending), nil
}

func (q queue) Ack(settle string) {
	if err := q.conn.NATS().Publish(settle, []byte("+ACK")); err != nil {
		q.o.Logger.Debug("acknowledgement not sent, the command will be delivered again", "err", err)
	}
}

// Gone reports whether a message is not in the stream any more: its session was deleted, or it was settled elsewhere.
// It must not be delivered, because the session may have begun anew. A message whose payload was let go has it
// afterwards. The leader of the stream is asked, for another replica may be behind; where it does not answer the
// message counts as there.
func (q queue) Gone(ctx context.Context, m *reader.Message) bool {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	js := q.conn.JetStream()
	got, err := js.Conn().RequestWithContext(ctx, natsio.APIPrefix(js)+"STREAM.MSG.GET."+schemas.StreamCommands,
		fmt.Appendf(nil, `{"seq":%d}`, m.Seq))
	if err != nil {
		return false
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Header []byte `json:"hdrs"`
			Data   []byte `json:"data"`
		} `json:"message"`
	}
	if json.Unmarshal(got.Data, &answer) != nil {
		return false
	}
	if answer.Error == nil || answer.Error.ErrorCode != jetstream.JSErrCodeMessageNotFound {
		if answer.Message != nil {
			m.Body.(*body).read(answer.Message.Header, answer.Message.Data)
		}
		return false
	}
	q.o.Logger.Info("command dropped, it is not in the inbox any more", "session", m.Session, "seq", m.Seq)
	q.metrics.count("gone")
	return true
}
