package sweep

import (
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// del is a character that a server does not find subjects by: it lists none that has it, delivers none to a consumer
// with a filter, keeps any number of messages of one, and purges none.
const del = "\x7f"

// rules are the streams that are swept. What a server delivers to a stream has the subject that it had before, which
// need not be one of the stream's.
func (s *Sweeper) rules() []*swept {
	list := []*swept{
		{name: schemas.StreamTools, meant: s.isCall},
		{name: schemas.StreamTimers, meant: s.isTimer},
	}
	for _, bucket := range []string{schemas.BucketTools, schemas.BucketResources, schemas.BucketRunners,
		schemas.BucketDeletions, schemas.BucketSessions} {
		list = append(list, &swept{name: "KV_" + bucket, bucket: true, meant: func(m natsio.Stored) bool {
			return strings.HasPrefix(m.Subject, "$KV."+bucket+".") && isEntry(m)
		}})
	}
	return list
}

// isCall reports whether a worker would answer a message: it has the id of the call of its subject, or is a request
// for it. What is no call has no answer, and in the queue of a tool that nobody serves it stays.
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

// isTimer reports whether a message is a timer that waits, or what the server has made of one that was due.
func (s *Sweeper) isTimer(m natsio.Stored) bool {
	prefix := s.conn.Subjects().Prefix()
	switch {
	case strings.Contains(m.Subject, del):
		return false
	case strings.HasPrefix(m.Subject, prefix+".sched."):
		return m.Header.Get(jetstream.ScheduleHeader) != ""
	}
	return strings.HasPrefix(m.Subject, prefix+".due.") && m.Header.Get(headerScheduler) != ""
}

// headerScheduler is in what the server makes of a schedule.
const headerScheduler = "Nats-Scheduler"

// isEntry reports whether a message at a key is what somebody has put, or that somebody has deleted it.
func isEntry(m natsio.Stored) bool {
	switch {
	case m.Unreadable, strings.Contains(m.Subject, del), codec.IsAnswer(m.Header, m.Data):
		return false
	case len(m.Data) > 0:
		return true
	}
	return m.Header.Get("KV-Operation") != "" || m.Header.Get(jetstream.MarkerReasonHeader) != ""
}
