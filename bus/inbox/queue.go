package inbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

const (
	// ackWait is so long that it never expires: a message is redelivered by the next consumer, not after a time.
	ackWait = 365 * 24 * time.Hour
	// A pull request expires after pullExpiry and is renewed. A consumer that is silent for twice pullHeartbeat is
	// lost.
	pullExpiry    = 10 * time.Second
	pullHeartbeat = time.Second
	apiTimeout    = 5 * time.Second // of one request to the JetStream API
	maxCreated    = 5               // times that a consumer which skips messages is created
	// codeOverlap is the error code for a consumer of a work queue whose filters overlap with those of another one.
	codeOverlap jetstream.ErrorCode = 10100
)

// queue implements [reader.Queue] on the stream AGENT_CMD.
type queue struct{ *Inbox }

// Create creates a consumer whose state is in the server's memory: the queue itself is on disk, and a server that is
// lost loses only its knowledge of deliveries. MaxDeliver is unlimited, because the server would stop delivering a
// message beyond it but store the message for ever. The inbox itself gives messages up.
//
// A consumer of a replicated queue that counts fewer messages than were stored is created again at once: it skips some,
// and the servers remove a skipped message as if it had been acknowledged, when the consumer gets another leader
// (decision 147).
func (q queue) Create(ctx context.Context, c *reader.Consumer) (backlog uint64, err error) {
	if err := q.identify(ctx, c.Unverified); err != nil {
		return 0, err
	}
	for tries := 1; ; tries++ {
		stored, err := q.count(ctx, c)
		if err != nil { // the reader compares again later, and a runner that reads nothing is worse
			q.o.Logger.Warn("creating the consumer of the inbox without a comparison", "consumer", c.Name, "err", err)
		}
		backlog, err := q.create(ctx, c)
		if err != nil || backlog >= stored || tries == maxCreated {
			return backlog, err
		}
		q.o.Logger.Warn("creating the consumer of the inbox again: it skips messages", "consumer", c.Name,
			"stored", stored, "pending", backlog)
		if _, err := q.Delete(ctx, c.Name); err != nil {
			return 0, err
		}
		if !natsio.Wait(ctx, natsio.RetryWait) {
			return 0, context.Cause(ctx)
		}
	}
}

func (q queue) create(ctx context.Context, c *reader.Consumer) (backlog uint64, err error) {
	config := jetstream.ConsumerConfig{
		Durable: c.Name, Description: "a runner's share of the inbox", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: ackWait, MaxAckPending: q.o.MaxInFlight, MaxDeliver: -1, MemoryStorage: true,
	}
	for _, n := range c.Reads {
		config.FilterSubjects = append(config.FilterSubjects, fmt.Sprintf("%s.cmd.%d.>", q.conn.Subjects().Prefix(), n))
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	consumer, err := q.stream.CreateConsumer(ctx, config)
	switch {
	case natsio.HasCode(err, codeOverlap):
		return 0, reader.ErrOverlap
	case err != nil:
		return 0, fmt.Errorf("inbox: consumer %s of %s: %w", c.Name, schemas.StreamCommands, err)
	}
	c.Clustered = consumer.CachedInfo().Cluster != nil
	return consumer.CachedInfo().NumPending, nil
}

// identify reads the name of the inbox, if it is not known or again is set. Its error for an inbox that has replaced
// the one of before keeps the runner from it: the number of partitions may be another, and other runners know that one.
func (q queue) identify(ctx context.Context, again bool) error {
	before := q.name.Load()
	if before != nil && !again {
		return nil
	}
	name, err := streams.InboxName(ctx, q.conn)
	if err != nil {
		return err
	}
	if before != nil && *before != "" && *before != name {
		return fmt.Errorf("inbox: stream %s was created again, it is called %q now and was %q: restart the runner",
			schemas.StreamCommands, name, *before)
	}
	q.name.Store(&name)
	return nil
}

func (q queue) Consume(c *reader.Consumer) (err error) {
	q.stopConsuming, err = natsio.Consume(q.conn.JetStream(), schemas.StreamCommands, c.Name, natsio.PullOptions{
		Messages: pullMessages, Bytes: q.pullBytes(), Expiry: pullExpiry, Heartbeat: pullHeartbeat,
	}, func(msg *nats.Msg) { q.receive(c, msg) }, func(err error) { q.reader.Break(c, err) })
	if err != nil {
		return fmt.Errorf("inbox: consume from %s: %w", c.Name, err)
	}
	return nil
}

// pullBytes returns the byte limit of a pull request. Two requests are pending at once, and what the connection has to
// receive behind them waits. If the server has more than 64 MiB (its max_pending) to write to a connection it closes
// the connection as a slow consumer.
func (q queue) pullBytes() int {
	const bytes, frame = 4 << 20, 64 << 10
	return max(bytes, int(q.conn.NATS().MaxPayload())+frame)
}

func (q queue) receive(c *reader.Consumer, msg *nats.Msg) {
	md, err := msg.Metadata()
	if err != nil {
		q.o.Logger.Error("message without metadata", "subject", msg.Subject, "err", err)
		return
	}
	session, kind, _ := q.conn.Subjects().ParseCommand(msg.Subject)
	b := &body{subject: msg.Subject, stored: md.Timestamp, header: msg.Header, data: msg.Data}
	b.large = b.size() > largePayload || schemas.DataRef(msg.Header) != ""
	q.reader.Receive(c, md.Sequence.Consumer, &reader.Message{
		Seq: md.Sequence.Stream, Partition: partitionOf(q.conn.Subjects(), msg.Subject), Session: session,
		Urgent: urgent(kind), Aborts: aborts(kind), Yields: yields(kind), Inherits: inherits(kind),
		Kind: kindOf(kind),
		Body: b,
	}, msg.Reply)
}

// aborts reports whether a kind of command ends a run.
func aborts(kind schemas.CommandKind) bool {
	return kind == schemas.CommandAbort || kind == schemas.CommandSubagentAbort
}

// yields reports whether a kind of command may come behind an abort that was sent after it: it starts no run. A steer
// does, if the abort has left the session idle, and an abort may be told to withdraw it. The result of a sub-agent does
// not, as the abort has aborted the sub-agent.
func yields(kind schemas.CommandKind) bool {
	switch kind {
	case schemas.CommandToolResult, schemas.CommandSubagentResult, schemas.CommandTimer, schemas.CommandApprove,
		schemas.CommandDeny:
		return true
	}
	return false
}

// inherits reports whether a kind of command is stored at once if an abort waits behind it. The others either yield, or
// more has to be done than to store them in their session: a branch begins one of its own, and a sub-agent begins with
// its prompt.
func inherits(kind schemas.CommandKind) bool {
	return !aborts(kind) && !yields(kind) && kind != schemas.CommandBranch && kind != schemas.CommandSubagentPrompt
}

// kindOf returns what kind of message a command is where places are few.
func kindOf(kind schemas.CommandKind) reader.Kind {
	switch kind {
	case schemas.CommandTimer, schemas.CommandSubagentResult, schemas.CommandSubagentPrompt, schemas.CommandSubagentAbort:
		return reader.System
	case schemas.CommandToolResult:
		return reader.Result
	}
	if urgent(kind) {
		return reader.Urgent
	}
	return reader.Command
}

// urgent reports whether a kind of command only continues a run. Commands that may start a run of a session at rest
// wait behind these; if the session is at work, none of them waits.
func urgent(kind schemas.CommandKind) bool {
	switch kind {
	case schemas.CommandPrompt, schemas.CommandSteer, schemas.CommandFollowUp, schemas.CommandContinue,
		schemas.CommandCompact, schemas.CommandNavigate, schemas.CommandBranch:
		return false
	}
	return true
}

// partitionOf returns the partition in the subject of a stored message, -1 if there is none.
func partitionOf(subjects schemas.Subjects, subject string) int {
	token, _, _ := strings.Cut(strings.TrimPrefix(subject, subjects.Prefix()+".cmd."), ".")
	n, err := strconv.Atoi(token)
	if err != nil {
		return -1
	}
	return n
}

func (q queue) Stop() {
	if q.stopConsuming != nil {
		q.stopConsuming()
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

// Names requests the names and not the list of consumers: for the list a cluster has to ask the leader of each.
func (q queue) Names(ctx context.Context) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	list := q.stream.ConsumerNames(ctx)
	for name := range list.Name() {
		names = append(names, name)
	}
	return names, list.Err()
}

func (q queue) Reads(ctx context.Context, name string) (partitions []int, err error) {
	info, err := q.info(ctx, name)
	if err != nil {
		return nil, err
	}
	// The server moves a single subject from the one field to the other.
	for _, filter := range append(info.Config.FilterSubjects, info.Config.FilterSubject) {
		if n := partitionOf(q.conn.Subjects(), filter); n >= 0 {
			partitions = append(partitions, n)
		}
	}
	return partitions, nil
}

func (q queue) Counts(ctx context.Context, name string) (delivered, settled uint64, err error) {
	info, err := q.info(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	return info.Delivered.Consumer, info.Delivered.Consumer - uint64(info.NumAckPending), nil
}

func (q queue) info(ctx context.Context, name string) (*jetstream.ConsumerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	c, err := q.stream.Consumer(ctx, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, reader.ErrConsumerNotFound
	}
	if err != nil {
		return nil, err
	}
	return c.CachedInfo(), nil
}

func (q queue) Ack(settle string) {
	if err := q.conn.NATS().Publish(settle, []byte("+ACK")); err != nil {
		q.o.Logger.Debug("acknowledgement not sent, the command will be redelivered", "err", err)
	}
}

// Refetch reports whether a message was deleted from the stream, with its session or because another runner has settled
// it. Such a message must not be delivered, because its session may have started again. Otherwise Refetch restores the
// payload that the message has dropped. It asks the leader of the stream, because another replica may be behind. If the
// leader does not answer, the message counts as stored.
func (q queue) Refetch(ctx context.Context, m *reader.Message) (deleted bool) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	stored, found, err := natsio.At(ctx, q.conn.JetStream(), schemas.StreamCommands, m.Seq)
	switch {
	case err != nil:
		return false
	case found:
		m.Body.(*body).restore(stored)
		return false
	}
	q.o.Logger.Info("command dropped, it is not in the inbox any more", "session", m.Session, "seq", m.Seq)
	q.metrics.count("gone")
	return true
}
