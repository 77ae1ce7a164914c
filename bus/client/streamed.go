package client

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// minCatchUp is the minimum time between two reads of the log that an update triggers. Anybody who may publish
// updates can trigger them.
const minCatchUp = 250 * time.Millisecond

// maxStreamed limits the bytes of a reply's updates that are yielded; updateCost is what each update and each of its
// parts counts in addition to its text. Followers keep what they receive, and a client that may publish updates could
// publish without end. Nothing is lost beyond the limit: message_end contains the whole message.
const (
	maxStreamed = 32 << 20
	updateCost  = 64
)

// streamed is a message or a tool call that has started and not ended.
type streamed struct {
	message   bool      // a message, not a tool call
	n         uint64    // number of the last update yielded
	time      time.Time // time of that update
	size      int       // bytes of the updates of a message
	truncated bool      // an update is lost for good, or maxStreamed was reached: yield no more
}

// track maintains the set of messages and tool calls in progress.
func (w *watcher) track(seq uint64, t schemas.EventType, data schemas.EventData) {
	switch t {
	case schemas.EventMessageStart:
		delete(w.open, w.message)
		w.message, w.open[seq] = seq, &streamed{message: true}
	case schemas.EventMessageEnd:
		delete(w.open, w.message)
	case schemas.EventToolExecutionStart:
		w.open[seq] = &streamed{}
	case schemas.EventToolExecutionEnd:
		if d, ok := data.(*schemas.ToolExecutionEnd); ok {
			delete(w.open, d.Call.Seq())
		}
	case schemas.EventAgentEnd:
		clear(w.open)
	}
}

// skip tracks an event that is not yielded. Only the end of a tool call requires its data to be decoded.
func (w *watcher) skip(s schemas.StoredEvent) {
	var data schemas.EventData
	if schemas.EventType(s.Name) == schemas.EventToolExecutionEnd && s.Ref == "" {
		if e, err := s.Decode(nil); err == nil {
			data = e.Data
		}
	}
	w.track(s.Seq, schemas.EventType(s.Name), data)
}

// readUpdates yields the stored updates of messages and tool calls in progress. The stream is in memory: after a
// server restart it does not exist until a runner creates it again.
func (w *watcher) readUpdates(ctx context.Context) error {
	subject := w.c.subjects.LiveUpdate(w.session)
	for m, err := range w.c.readStored(ctx, schemas.StreamUpdates, subject, startAfter(w.deltas)) {
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		if u, ok := w.decodeUpdate(m.header, m.data); ok {
			if s := w.open[u.Event]; s != nil {
				if s.classify(u) == updateGap {
					s.truncated = true // the stream no longer has the update in between
				}
				if err := w.update(s, u); err != nil {
					return err
				}
			}
		}
		w.deltas = m.seq
	}
	return nil
}

// liveUpdate processes a live update. missed reports whether the log has to be read first.
func (w *watcher) liveUpdate(m *nats.Msg) (missed bool, err error) {
	u, ok := w.decodeUpdate(m.Header, m.Data)
	if !ok || !w.reached() {
		return false, nil
	}
	s := w.open[u.Event]
	switch {
	case s == nil && u.Event > w.at.seq, s != nil && s.classify(u) == updateGap:
		return time.Since(w.caughtUp) >= minCatchUp, nil
	case s == nil:
		return false, nil // it belongs to something that has ended
	}
	return false, w.update(s, u)
}

// decodeUpdate decodes an update of the session. ok is false for other messages: anybody who may publish updates can
// publish on this subject.
func (w *watcher) decodeUpdate(header nats.Header, data []byte) (schemas.Update, bool) {
	u, err := schemas.DecodeUpdate(header, data)
	if err != nil || u.Session != w.session {
		return u, false
	}
	if d, ok := u.Data.(*schemas.MessageUpdate); ok { // the id of a message derives from its start event
		return u, d.MessageID == "m"+strconv.FormatUint(u.Event, 10)
	}
	return u, true
}

// update yields an update if it is the next one.
func (w *watcher) update(s *streamed, u schemas.Update) error {
	if s.classify(u) != updateNext {
		return nil
	}
	if d, ok := u.Data.(*schemas.MessageUpdate); ok {
		if s.size += sizeOf(d); s.size > maxStreamed {
			s.truncated = true
			return nil
		}
	}
	s.n, s.time = u.N, u.Time
	if !w.yield(Item{Update: &u}) {
		return errStop
	}
	return nil
}

// sizeOf returns what an update counts towards maxStreamed.
func sizeOf(u *schemas.MessageUpdate) int {
	size := updateCost
	for _, e := range u.AssistantMessageEvents {
		size += updateCost + len(e.Delta)
		if e.ToolCall != nil {
			size += len(e.ToolCall.Name) + len(e.ToolCall.ID)
		}
	}
	return size
}

type updateClass int

const (
	updateStale updateClass = iota
	updateNext
	updateGap
)

// classify compares an update with the last one yielded. Updates of a message are increments, so none may be missing.
// An update of a tool call replaces the one before, and their numbers start at 1 again when the call is executed
// again: their times tell the executions apart.
func (s *streamed) classify(u schemas.Update) updateClass {
	if _, tool := u.Data.(*schemas.ToolExecutionUpdate); tool == s.message {
		return updateStale // a tool's update for a message, or the reverse
	} else if tool {
		if u.Time.After(s.time) || u.Time.Equal(s.time) && u.N > s.n {
			return updateNext
		}
		return updateStale
	}
	switch {
	case s.truncated || u.N <= s.n:
		return updateStale
	case u.N == s.n+1:
		return updateNext
	}
	return updateGap
}
