package inbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const (
	statusBatch = 256     // messages in one answer
	statusBytes = 4 << 20 // of one answer
	// statusLimit is how many messages are looked at: more than may be in flight, so that what stands in the way is among
	// them.
	statusLimit = 64 << 10
)

// A NATS server answers some requests with a status, a message without payload whose header begins with a code. Whoever
// sends such a request with a subject of the inbox as its reply has the status stored there. No client library delivers
// it: to them a status is word of the consumer, not of the stream. It would never be acknowledged, and every new
// consumer would stumble over it.

// clearStatuses takes statuses out of the inbox and keeps them as dead letters.
func (in *Inbox) clearStatuses(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	info, err := in.stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("inbox: state of %s: %w", schemas.StreamCommands, err)
	}
	next, last := info.State.FirstSeq, min(info.State.LastSeq, info.State.FirstSeq+statusLimit)
	for more := true; more && next <= last; {
		if next, more, err = in.clearBatch(ctx, next); err != nil {
			return fmt.Errorf("inbox: look for statuses in %s from %d on: %w", schemas.StreamCommands, next, err)
		}
	}
	return nil
}

// clearBatch looks through one answer's worth of messages. It returns where to go on, and whether there is more.
func (in *Inbox) clearBatch(ctx context.Context, from uint64) (next uint64, more bool, err error) {
	nc := in.conn.NATS()
	answers := make(chan *nats.Msg, statusBatch+1) // NextMsg of nats.go takes a status for an error
	sub, err := nc.ChanSubscribe(natsio.NewInbox(nc), answers)
	if err != nil {
		return from, false, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	request := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":"%s.cmd.*.*.*","batch":%d,"max_bytes":%d}`, from,
		in.conn.Subjects().Prefix(), statusBatch, statusBytes)
	subject := natsio.APIPrefix(in.conn.JetStream()) + "DIRECT.GET." + schemas.StreamCommands
	if err := nc.PublishRequest(subject, sub.Subject, request); err != nil {
		return from, false, err
	}
	for {
		var m *nats.Msg
		select {
		case m = <-answers:
		case <-ctx.Done():
			return from, false, ctx.Err()
		}
		seq := storedSequence(m)
		if seq == 0 {
			return from, more, nil // the end of the answer
		}
		if len(m.Data) == 0 && m.Header.Get("Status") != "" {
			if err := in.clearStatus(ctx, m, seq); err != nil {
				return from, false, err
			}
		}
		from, more = seq+1, true
	}
}

// clearStatus moves one status to the dead letters.
func (in *Inbox) clearStatus(ctx context.Context, m *nats.Msg, seq uint64) error {
	values := m.Header[jetstream.SubjectHeader]
	subject := values[len(values)-1] // what the server adds comes last
	session, _, err := in.conn.Subjects().ParseCommand(subject)
	if err != nil {
		session = schemas.NoSession
	}
	reason := fmt.Sprintf("%s: it is a status of a NATS server, %.20q", schemas.RejectForeign, m.Header.Get("Status"))
	if err := in.bury(ctx, session, seq, &body{subject: subject, header: m.Header}, reason); err != nil {
		return err
	}
	err = in.stream.DeleteMsg(ctx, seq)
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	in.metrics.count("foreign")
	in.o.Logger.Warn("status of a server taken out of the inbox", "session", session, "seq", seq)
	return nil
}

// storedSequence is where the message of an answer is stored, 0 if it is none: the end of the answer.
func storedSequence(m *nats.Msg) (seq uint64) {
	seq, _ = strconv.ParseUint(natsio.Added(m.Header, jetstream.SequenceHeader), 10, 64)
	return seq
}
