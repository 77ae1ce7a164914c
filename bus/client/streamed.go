package client

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// minCatchUp is the shortest time between two readings because of an update: anybody who may publish updates could
// cause as many as he likes.
const minCatchUp = 250 * time.Millisecond

// maxStreamed is how many bytes of a reply's updates are yielded, and updateCost what each and each of its parts counts
// besides its text. Whoever follows a session keeps what is streamed, and whoever executes tools may publish updates
// without an end. A reply is its log's: what is beyond this comes with its message_end.
const (
	maxStreamed = 32 << 20
	updateCost  = 64
)

// streamed is a message or tool call whose event has come and whose end has not.
type streamed struct {
	message bool      // and not a tool call
	n       uint64    // number of the last update
	time    time.Time // of it
	size    int       // of a message's updates
	torn    bool      // an update is missing for good, or there were too many; there are no more before the end
}

// track keeps the list of what is being streamed.
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

// passOver tracks an event that is not yielded. Only the end of a tool call needs its data to be read.
func (w *watcher) passOver(s schemas.StoredEvent) {
	var data schemas.EventData
	if schemas.EventType(s.Name) == schemas.EventToolExecutionEnd && s.Ref == "" {
		if e, err := s.Decode(nil); err == nil {
			data = e.Data
		}
	}
	w.track(s.Seq, schemas.EventType(s.Name), data)
}

// readUpdates yields the updates that the server has kept of what is being streamed. Where the stream is in memory, it
// is lost in a restart until a runner has made it again.
func (w *watcher) readUpdates(ctx context.Context) error {
	subject := w.c.subjects.LiveUpdate(w.session)
	for m, err := range w.c.stored(ctx, schemas.StreamUpdates, subject, after(w.deltas)) {
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		if u, ok := w.decodeUpdate(m.header, m.data); ok {
			if s := w.open[u.Event]; s != nil {
				if s.fits(u) == updateMissing {
					s.torn = true // the stream has dropped it
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

// liveUpdate takes a live update.
func (w *watcher) liveUpdate(m *nats.Msg) (missed bool, err error) {
	u, ok := w.decodeUpdate(m.Header, m.Data)
	if !ok {
		return false, nil
	}
	s := w.open[u.Event]
	switch {
	case s == nil && u.Event > w.at.seq, s != nil && s.fits(u) == updateMissing:
		return time.Since(w.caughtUp) >= minCatchUp, nil
	case s == nil:
		return false, nil // of what has ended
	}
	return false, w.update(s, u)
}

// decodeUpdate passes over what is no update of the session: anybody who executes tools can publish there.
func (w *watcher) decodeUpdate(header nats.Header, data []byte) (schemas.Update, bool) {
	u, err := schemas.DecodeUpdate(header, data)
	if err != nil || u.Session != w.session {
		return u, false
	}
	if d, ok := u.Data.(*schemas.MessageUpdate); ok { // a message is called by its event
		return u, d.MessageID == "m"+strconv.FormatUint(u.Event, 10)
	}
	return u, true
}

// update yields an update if it is the next one.
func (w *watcher) update(s *streamed, u schemas.Update) error {
	if s.fits(u) != updateNext {
		return nil
	}
	if d, ok := u.Data.(*schemas.MessageUpdate); ok {
		if s.size += sizeOf(d); s.size > maxStreamed {
			s.torn = true
			return nil
		}
	}
	s.n, s.time = u.N, u.Time
	if !w.yield(Item{Update: &u}) {
		return errStop
	}
	return nil
}

// sizeOf is what a message's update counts for whoever keeps it.
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

type updateFit int

const (
	updateKnown updateFit = iota
	updateNext
	updateMissing
)

// fits says where an update stands. Those of a reply add to one another and need each other. A tool's replace the one
// before, and begin at 1 again when the call is executed again: what tells the executions apart is their time.
func (s *streamed) fits(u schemas.Update) updateFit {
	if _, tool := u.Data.(*schemas.ToolExecutionUpdate); tool == s.message {
		return updateKnown // it says that it is what its event is not
	} else if tool {
		if u.Time.After(s.time) || u.Time.Equal(s.time) && u.N > s.n {
			return updateNext
		}
		return updateKnown
	}
	switch {
	case s.torn || u.N <= s.n:
		return updateKnown
	case u.N == s.n+1:
		return updateNext
	}
	return updateMissing
}

// republished returns a message of the log as the server sends it out once it is stored. ok says that it is one.
func republished(m *nats.Msg) (s storedMsg, ok bool) {
	if natsio.Added(m.Header, jetstream.StreamHeader) != schemas.StreamEvents {
		return s, false
	}
	seq, err := strconv.ParseUint(natsio.Added(m.Header, jetstream.SequenceHeader), 10, 64)
	return storedMsg{natsio.Added(m.Header, jetstream.SubjectHeader), seq, m.Header, m.Data}, err == nil
}
