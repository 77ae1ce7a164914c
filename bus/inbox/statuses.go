package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// statusLimit is how many messages are looked at: more than may be in flight, so that what stands in the way is among
// them.
const statusLimit = 64 << 10

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
	if info.State.Msgs == 0 {
		return next, nil
	}
	next, err = natsio.Scan(ctx, in.conn.JetStream(), schemas.StreamCommands, next,
		min(info.State.LastSeq, next+statusLimit), func(m natsio.Stored) error {
			b := &body{subject: m.Subject, header: m.Header, data: m.Data}
			switch {
			case in.unseen(m.Subject):
				return in.clearOut(ctx, m.Sequence, b, unseenReason)
			case len(m.Data) == 0 && m.Header.Get("Status") != "":
				why := fmt.Sprintf("it is a status of a NATS server, %.20q", m.Header.Get("Status"))
				return in.clearOut(ctx, m.Sequence, b, why)
			}
			return nil
		})
	if err != nil {
		err = fmt.Errorf("inbox: look for statuses: %w", err)
	}
	return next, err
}

// unseen reports whether no consumer is given a message of this subject. A server does not list subjects with the
// character DEL, so that no filter finds them; and it stores what it was made to deliver here under the subject that it
// had.
func (in *Inbox) unseen(subject string) bool {
	rest, ok := strings.CutPrefix(subject, in.conn.Subjects().Prefix()+".cmd.")
	return !ok || strings.Count(rest, ".") != 2 || strings.Contains(subject, "\x7f")
}

const unseenReason = "no consumer is given what has this subject"

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
