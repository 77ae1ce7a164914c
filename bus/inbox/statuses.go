package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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
	_, err := in.clear(ctx, 0)
	return err
}

// sweepEvery is how often the inbox is swept.
const sweepEvery = 3 * time.Second

// sweep takes out what no consumer is ever given, until ctx ends. The runner of the first partition does it for all. It
// looks at each message once.
func (in *Inbox) sweep(ctx context.Context) {
	var next uint64
	for natsio.Wait(ctx, sweepEvery) {
		if !slices.Contains(in.reader.Partitions(), 0) {
			continue
		}
		var err error
		if next, err = in.clear(ctx, next); err != nil && ctx.Err() == nil {
			in.o.Logger.Debug("inbox not swept, trying again", "from", next, "err", err)
		}
	}
}

// clear takes statuses, and what no consumer is ever given, out of the inbox and keeps them as dead letters. It begins
// at a sequence and returns where to go on.
func (in *Inbox) clear(ctx context.Context, from uint64) (next uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	info, err := in.stream.Info(ctx)
	if err != nil {
		return from, fmt.Errorf("inbox: state of %s: %w", schemas.StreamCommands, err)
	}
	next = max(from, info.State.FirstSeq)
	last := min(info.State.LastSeq, next+statusLimit)
	for more := info.State.Msgs > 0; more && next <= last; {
		next, more, err = in.clearBatch(ctx, next)
		if err == nil && !more {
			next, more, err = in.clearOne(ctx, next)
		}
		if err != nil {
			return next, fmt.Errorf("inbox: look for statuses in %s from %d on: %w", schemas.StreamCommands, next, err)
		}
	}
	return next, nil
}

// unseen reports whether no consumer is given a message of this subject. A server does not list subjects with the
// character DEL, so that no filter finds them; and it stores what it was made to deliver here under the subject that it
// had.
func (in *Inbox) unseen(subject string) bool {
	rest, ok := strings.CutPrefix(subject, in.conn.Subjects().Prefix()+".cmd.")
	return !ok || strings.Count(rest, ".") != 2 || strings.Contains(subject, "\x7f")
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
	request := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">","batch":%d,"max_bytes":%d}`, from, statusBatch, statusBytes)
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
		reason := ""
		subject := natsio.Added(m.Header, jetstream.SubjectHeader)
		switch {
		case in.unseen(subject):
			reason = unseenReason
		case len(m.Data) == 0 && m.Header.Get("Status") != "":
			reason = fmt.Sprintf("it is a status of a NATS server, %.20q", m.Header.Get("Status"))
		}
		if reason != "" {
			if err := in.clearOut(ctx, seq, &body{subject: subject, header: m.Header, data: m.Data}, reason); err != nil {
				return from, false, err
			}
		}
		from, more = seq+1, true
	}
}

const unseenReason = "no consumer is given what has this subject"

// clearOne does the same for the next message, whose header no library may be able to read: a batch ends before it.
func (in *Inbox) clearOne(ctx context.Context, from uint64) (next uint64, more bool, err error) {
	js := in.conn.JetStream()
	got, err := js.Conn().RequestWithContext(ctx, natsio.APIPrefix(js)+"STREAM.MSG.GET."+schemas.StreamCommands,
		fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">"}`, from))
	if err != nil {
		return from, false, err
	}
	var answer struct {
		Message *struct {
			Subject string `json:"subject"`
			Seq     uint64 `json:"seq"`
			Data    []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(got.Data, &answer); err != nil {
		return from, false, err
	}
	m := answer.Message
	if m == nil {
		return from, false, nil
	}
	if in.unseen(m.Subject) {
		err = in.clearOut(ctx, m.Seq, &body{subject: m.Subject, data: m.Data}, unseenReason)
	}
	return m.Seq + 1, err == nil, err
}

// clearOut moves one message to the dead letters.
func (in *Inbox) clearOut(ctx context.Context, seq uint64, b *body, why string) error {
	session, _, err := in.conn.Subjects().ParseCommand(b.subject)
	if err != nil {
		session = schemas.NoSession
	}
	if err := in.bury(ctx, session, seq, b, fmt.Sprintf("%s: %s", schemas.RejectForeign, why)); err != nil {
		return err
	}
	err = in.stream.DeleteMsg(ctx, seq)
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	in.metrics.count("foreign")
	in.o.Logger.Warn("message that nobody is given taken out of the inbox", "session", session, "seq", seq, "why", why)
	return nil
}

// storedSequence is where the message of an answer is stored, 0 if it is none: the end of the answer.
func storedSequence(m *nats.Msg) (seq uint64) {
	seq, _ = strconv.ParseUint(natsio.Added(m.Header, jetstream.SequenceHeader), 10, 64)
	return seq
}
