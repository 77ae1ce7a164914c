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

const (
	sweepEvery = 3 * time.Second
	// The bounds of a round.
	sweepMessages = 64 << 10
	sweepBytes    = 32 << 20
	sweepTime     = 2 * time.Second
)

// errRoundFull ends a round.
var errRoundFull = errors.New("enough for this round")

// sweep removes what no consumer delivers from the stream, until ctx ends. The runner that reads the first partition
// does it for all runners.
func (in *Inbox) sweep(ctx context.Context) {
	for natsio.Wait(ctx, sweepEvery) {
		if slices.Contains(in.reader.Partitions(), 0) {
			in.sweepRound(ctx)
		}
	}
}

// sweepRound moves messages that no consumer delivers from the stream to the dead letters. It continues where the last
// round has ended, so it reads each message once.
func (in *Inbox) sweepRound(ctx context.Context) {
	round, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	if err := in.scan(round); err != nil && !errors.Is(err, errRoundFull) && ctx.Err() == nil {
		in.o.Logger.Debug("inbox not swept to its end, continuing later", "from", in.swept, "err", err)
	}
}

func (in *Inbox) scan(ctx context.Context) error {
	info, err := in.stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("inbox: state of %s: %w", schemas.StreamCommands, err)
	}
	in.swept = max(in.swept, info.State.FirstSeq)
	if info.State.Msgs == 0 {
		return nil
	}
	size := 0
	in.swept, err = natsio.Scan(ctx, in.conn.JetStream(), schemas.StreamCommands, in.swept,
		min(info.State.LastSeq, in.swept+sweepMessages), func(m natsio.Stored) error {
			if size >= sweepBytes {
				return errRoundFull
			}
			size += len(m.Data)
			if in.undeliverable(m.Subject) {
				return in.remove(ctx, m.Sequence)
			}
			return nil
		})
	return err
}

// undeliverable reports whether no consumer delivers messages of a subject. A server does not list subjects that
// contain the character DEL, so no filter matches them. And a message that a server was made to publish here is stored
// under the subject that it had, without a partition.
func (in *Inbox) undeliverable(subject string) bool {
	rest, ok := strings.CutPrefix(subject, in.conn.Subjects().Prefix()+".cmd.")
	if tokens := strings.Split(rest, "."); len(tokens) == 4 && tokens[2] == string(schemas.CommandTimer) {
		rest = strings.Join(tokens[:3], ".")
	}
	return !ok || strings.Count(rest, ".") != 2 || strings.Contains(subject, "\x7f")
}

// remove moves a message to the dead letters. Which message that is the leader says: what a direct get answers is in
// headers, beside those of the message.
func (in *Inbox) remove(ctx context.Context, seq uint64) error {
	m, found, err := natsio.At(ctx, in.conn.JetStream(), schemas.StreamCommands, seq)
	if err != nil || !found || !in.undeliverable(m.Subject) {
		return err
	}
	return in.takeOut(ctx, m, "no consumer is given what has this subject")
}

// takeOut moves a message that is not delivered to the dead letters.
func (in *Inbox) takeOut(ctx context.Context, m natsio.Stored, why string) error {
	session, _, err := in.conn.Subjects().ParseCommand(m.Subject)
	if err != nil {
		session = schemas.NoSession
	}
	b := &body{subject: m.Subject, header: m.Header, data: m.Data}
	if err := in.bury(ctx, session, m.Sequence, b, string(schemas.RejectForeign)+": "+why); err != nil {
		return err
	}
	err = in.stream.DeleteMsg(ctx, m.Sequence)
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	in.metrics.count("foreign")
	in.o.Logger.Warn("undeliverable message moved to the dead letters", "session", session, "seq", m.Sequence)
	return nil
}
