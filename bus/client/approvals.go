package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// Approval is a call that waits for somebody's agreement, or does not any more. [Session.Approve] and [Session.Deny]
// answer it, with Request.Call.
type Approval struct {
	Session string
	Seq     uint64 // of its approval_requested
	Time    time.Time
	RunID   string
	Request schemas.ApprovalRequested
	// Waiting says that nobody has answered yet.
	Waiting bool
	// Resolved is the answer; nil while it waits, and where its run has ended without one.
	Resolved *schemas.ApprovalResolved
}

// Approvals yields the approvals of all sessions that wait, in no particular order, then each that is requested, and
// each again when it does not wait any more, until ctx ends, which is the last thing yielded, as its error. Nothing is
// missed across lost connections and restarts of the server. To begin with it reads the last message of each session,
// and the log of each whose run is under way.
func (c *Client) Approvals(ctx context.Context) iter.Seq2[Approval, error] {
	return func(yield func(Approval, error) bool) {
		f := &approvals{c: c, waiting: map[string][]Approval{}, yield: func(a Approval) bool { return yield(a, nil) }}
		switch err := f.run(ctx); {
		case errors.Is(err, errStop):
		case ctx.Err() != nil:
			yield(Approval{}, ctx.Err())
		default:
			yield(Approval{}, fmt.Errorf("client: follow approvals: %w", err))
		}
	}
}

// approvals follows the logs of all sessions by their sequence in the stream, which has them all without a gap.
type approvals struct {
	c       *Client
	yield   func(Approval) bool
	waiting map[string][]Approval // by session
	at      uint64                // last message of the stream that has been seen
}

func (f *approvals) run(ctx context.Context) error {
	t, err := f.c.tap(ctx, f.c.subjects.LiveEvent("*"))
	if err != nil {
		return err
	}
	defer t.close()
	if err := f.untilRead(ctx, f.readAwake); err != nil {
		return err
	}
	for _, list := range f.waiting {
		for _, a := range list {
			if !f.yield(a) {
				return errStop
			}
		}
	}
	for {
		if err := f.untilRead(ctx, f.catchUp); err != nil {
			return err
		}
		if err := f.listen(ctx, t); err != nil {
			return err
		}
	}
}

// untilRead reads, and retries while the server cannot be reached.
func (f *approvals) untilRead(ctx context.Context, read func(context.Context) error) error {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := read(ctx)
		if err == nil || !passing(err) || ctx.Err() != nil {
			return err
		}
		if pause == maxPause {
			f.c.o.Logger.Warn("approvals cannot be read, trying again", "err", err)
		}
		wait(ctx, pause)
	}
}

// readAwake reads the logs of the sessions whose run is under way, as their last message says.
func (f *approvals) readAwake(ctx context.Context) error {
	f.at = 0
	clear(f.waiting)
	var awake []string
	last := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	for m, err := range f.c.stored(ctx, schemas.StreamEvents, f.c.subjects.Event("*"), last) {
		if err != nil {
			return err
		}
		f.at = m.seq
		session, err := f.c.subjects.ParseEvent(m.subject)
		if err != nil {
			continue // no log
		}
		events, err := schemas.SplitLog(session, m.header, m.data)
		if n := len(events) - 1; err == nil && events[n].RunID != "" && events[n].Name != string(schemas.EventAgentEnd) {
			awake = append(awake, session)
		}
	}
	for _, session := range awake {
		for m, err := range f.c.stored(ctx, schemas.StreamEvents, f.c.subjects.Event(session), after(0)) {
			if err != nil {
				return err
			}
			if m.seq > f.at {
				break
			}
			if err := f.message(ctx, m, func(Approval) error { return nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *approvals) catchUp(ctx context.Context) error {
	for m, err := range f.c.stored(ctx, schemas.StreamEvents, f.c.subjects.Event("*"), after(f.at)) {
		if err == nil {
			err = f.message(ctx, m, f.show)
		}
		if err != nil {
			return err
		}
		f.at = m.seq
	}
	return nil
}

// listen yields what comes live. It returns nil when there may be something that has not come.
func (f *approvals) listen(ctx context.Context, t *tap) error {
	check := time.NewTimer(lastCheck)
	defer check.Stop()
	for {
		if missed, err := t.missed(); missed || err != nil {
			return err
		}
		select {
		case m := <-t.live:
			rec, ok := republished(m)
			if !ok || rec.seq <= f.at {
				continue
			}
			if rec.seq > f.at+1 {
				return nil
			}
			if err := f.message(ctx, rec, f.show); passing(err) {
				return nil
			} else if err != nil {
				return err
			}
			f.at = rec.seq
		case status := <-t.status:
			if status == nats.CLOSED {
				return nats.ErrConnectionClosed
			}
			return nil
		case <-check.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *approvals) show(a Approval) error {
	if !f.yield(a) {
		return errStop
	}
	return nil
}

// message takes the approvals out of a message of a log. A log that cannot be read has none.
func (f *approvals) message(ctx context.Context, m storedMsg, show func(Approval) error) error {
	session, err := f.c.subjects.ParseEvent(m.subject)
	if err != nil {
		return nil
	}
	events, err := schemas.SplitLog(session, m.header, m.data)
	if err != nil {
		return nil
	}
	for _, s := range events {
		switch schemas.EventType(s.Name) {
		case schemas.EventApprovalRequested, schemas.EventApprovalResolved, schemas.EventToolExecutionEnd,
			schemas.EventAgentEnd:
		default:
			continue
		}
		if len(f.waiting[session]) == 0 && schemas.EventType(s.Name) != schemas.EventApprovalRequested {
			continue
		}
		var fetched error
		e, err := s.Decode(func(ref string) (data []byte, err error) {
			data, fetched = f.c.blob(ctx, ref)
			return data, fetched
		})
		switch {
		case err == nil:
			err = f.event(e, show)
		case fetched == nil || errors.Is(fetched, ErrDamaged):
			// One session's data, which go ahead of its log where it is deleted, are not everybody's business.
			f.c.o.Logger.Warn("an event of a session cannot be read: what it says of approvals is passed over", "session",
				session, "seq", s.Seq, "type", s.Name, "err", err)
			if err = nil; schemas.EventType(s.Name) == schemas.EventAgentEnd {
				err = f.over(session, "", nil, show)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *approvals) event(e schemas.Event, show func(Approval) error) error {
	switch d := e.Data.(type) {
	case *schemas.ApprovalRequested:
		for _, known := range f.waiting[e.Session] {
			if known.Seq == e.Seq {
				return nil // its message is read again, after one of its events could not be had
			}
		}
		a := Approval{Session: e.Session, Seq: e.Seq, Time: e.Time, RunID: e.RunID, Request: *d, Waiting: true}
		f.waiting[e.Session] = append(f.waiting[e.Session], a)
		return show(a)
	case *schemas.ApprovalResolved:
		return f.over(e.Session, d.Call, d, show)
	case *schemas.ToolExecutionEnd:
		return f.over(e.Session, d.Call, nil, show)
	case *schemas.AgentEnd:
		return f.over(e.Session, "", nil, show)
	}
	return nil
}

// over ends the wait of a call, or of all of a session's.
func (f *approvals) over(session string, call schemas.CallKey, resolved *schemas.ApprovalResolved,
	show func(Approval) error,
) error {
	var left, ended []Approval
	for _, a := range f.waiting[session] {
		if call != "" && a.Request.Call != call {
			left = append(left, a)
			continue
		}
		a.Waiting, a.Resolved = false, resolved
		ended = append(ended, a)
	}
	if f.waiting[session] = left; len(left) == 0 {
		delete(f.waiting, session)
	}
	for _, a := range ended {
		if err := show(a); err != nil {
			return err
		}
	}
	return nil
}
