package bustest

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// TimerWaits reports whether a timer of a session is set, by any process.
func TimerWaits(ctx context.Context, c *bus.Conn, session, name string) (bool, error) {
	s, err := c.JetStream().Stream(ctx, schemas.StreamTimers)
	if err != nil {
		return false, err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(c.Subjects().Schedule(session, "*")))
	if err != nil {
		return false, err
	}
	for subject := range info.State.Subjects {
		if bus.TimerName(subject) == name {
			return true, nil
		}
	}
	return false, nil
}
