package sweep

import (
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// rules returns the streams to sweep. A message that the server itself puts into a stream keeps its subject, which need
// not be one of the stream's.
func (s *Sweeper) rules() []*swept {
	list := []*swept{
		{name: schemas.StreamTools, meant: s.isCall, mistake: s.isMistake},
		{name: schemas.StreamTimers, meant: s.isTimer},
	}
	for _, bucket := range []string{schemas.BucketTools, schemas.BucketResources, schemas.BucketRunners,
		schemas.BucketDeletions, schemas.BucketSessions, schemas.BucketProfiles} {
		list = append(list, &swept{name: "KV_" + bucket, bucket: true, meant: func(m natsio.Stored) bool {
			return strings.HasPrefix(m.Subject, "$KV."+bucket+".") && isEntry(m)
		}})
	}
	return list
}

// isCall reports whether a worker would answer a message: it has the id of the call in its subject, or is a request for
// that call. Any other message gets no answer, and would stay in the queue of a tool without workers.
func (s *Sweeper) isCall(m natsio.Stored) bool {
	queue, session, call, err := s.conn.Subjects().ParseTool(m.Subject)
	if err != nil {
		return false
	}
	if strings.HasPrefix(m.Header.Get(jetstream.MsgIDHeader), session+"/"+call) {
		return true
	}
	req, err := schemas.ParseToolRequest(m.Data)
	return err == nil && req.Queue() == queue && req.Session == session && string(req.Call) == call
}

// isMistake reports whether a message that is not a call may be a client's failed attempt to call a tool: the worker
// that serves the queue answers it with the reason.
func (s *Sweeper) isMistake(m natsio.Stored) bool {
	_, _, _, err := s.conn.Subjects().ParseTool(m.Subject)
	return err == nil && !m.Unreadable && !codec.IsAnswer(m.Header, m.Data)
}

// isTimer reports whether a message is a timer that waits, or the message that the server made of a due one.
func (s *Sweeper) isTimer(m natsio.Stored) bool {
	prefix := s.conn.Subjects().Prefix()
	switch {
	case !natsio.Literal(m.Subject):
		return false
	case strings.HasPrefix(m.Subject, prefix+".sched."):
		return m.Header.Get(jetstream.ScheduleHeader) != ""
	}
	return strings.HasPrefix(m.Subject, prefix+".due.") && m.Header.Get(headerScheduler) != ""
}

// headerScheduler is in the messages that the server makes of schedules.
const headerScheduler = "Nats-Scheduler"

// isEntry reports whether a message at a key is a value that a client has put, or a marker of its deletion.
func isEntry(m natsio.Stored) bool {
	switch {
	case m.Unreadable, !natsio.Literal(m.Subject), codec.IsAnswer(m.Header, m.Data):
		return false
	case len(m.Data) > 0:
		return true
	}
	return natsio.Removed(m.Header)
}
