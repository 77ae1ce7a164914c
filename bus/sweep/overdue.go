package sweep

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const (
	overdueAfter = 10 * time.Second
	// overdueEvery is how many rounds pass between two searches for timers that are overdue.
	overdueEvery = 10
)

// fireOverdue sets timers again that the server did not fire. A server that has no room for the message of a due timer
// never tries again, however much room there is later: until it restarts, or the timer is set anew.
func (s *Sweeper) fireOverdue(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	stream, err := s.conn.JetStream().Stream(ctx, schemas.StreamTimers)
	if err != nil {
		return fmt.Errorf("stream %s: %w", schemas.StreamTimers, err)
	}
	info := stream.CachedInfo()
	var overdue []natsio.Stored
	_, err = natsio.ScanSubject(ctx, s.conn.JetStream(), schemas.StreamTimers, s.conn.Subjects().Prefix()+".sched.>",
		info.State.FirstSeq, info.State.LastSeq, func(m natsio.Stored) error {
			at, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(m.Header.Get(jetstream.ScheduleHeader), "@at "))
			if err == nil && natsio.Literal(m.Subject) && info.TimeStamp.Sub(at) > s.overdueAfter {
				overdue = append(overdue, m)
			}
			return nil
		})
	if err != nil {
		return fmt.Errorf("timers of %s: %w", schemas.StreamTimers, err)
	}
	for _, m := range overdue {
		again := &nats.Msg{Subject: m.Subject, Header: schedule(m.Header), Data: m.Data}
		// It may have fired, been cancelled or set anew in the meantime.
		again.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(m.Sequence, 10))
		_, err := s.conn.JetStream().PublishMsg(ctx, again)
		if natsio.Outdated(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("set timer %s again: %w", m.Subject, err)
		}
		s.o.Logger.Warn("timer set again that the server did not fire", "subject", m.Subject)
	}
	return nil
}

// schedule returns the headers of a timer that is set again, without other instructions to the server.
func schedule(header nats.Header) nats.Header {
	again := nats.Header{}
	for name, values := range header {
		switch {
		case name == jetstream.ScheduleHeader, name == jetstream.ScheduleTargetHeader, name == jetstream.ScheduleTTLHeader,
			!natsio.Instructs(name):
			again[name] = values
		}
	}
	return again
}
