package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// Approval is a tool call that needs an approval, waiting for it or not any more. Answer it by passing Request to
// [Session.Approve] or [Session.Deny].
type Approval struct {
	Session string
	Seq     uint64 // sequence of its approval_requested event
	Time    time.Time
	RunID   string
	Request schemas.ApprovalRequested
	// LeftOut is the size of the arguments in bytes if [Client.ApprovalsOutlined] has left them out of Request, else 0.
	LeftOut int
	// Waiting reports whether the call still waits for an answer.
	Waiting bool
	// Resolved is the answer; nil while the call waits, and if the call or its run ended without an answer.
	Resolved *schemas.ApprovalResolved
}

// Approvals yields the waiting approvals of all sessions, in no particular order, then each new one as it is
// requested, and each again with Waiting false once it no longer waits. It ends when ctx ends, yielding the context's
// error last. Nothing is missed across lost connections and server restarts.
//
// On start it reads the last message of every session, and the whole log of each session with a run in progress, or
// with a foreign message behind its last event.
func (c *Client) Approvals(ctx context.Context) iter.Seq2[Approval, error] {
	return c.approvals(ctx, math.MaxInt, math.MaxInt)
}

// ApprovalsOutlined is [Client.Approvals] for a process whose memory others may not fill: it leaves out arguments of
// more than most bytes, and those of approvals beyond all bytes of arguments that wait together.
func (c *Client) ApprovalsOutlined(ctx context.Context, most, all int) iter.Seq2[Approval, error] {
	return c.approvals(ctx, most, all)
}

func (c *Client) approvals(ctx context.Context, most, all int) iter.Seq2[Approval, error] {
	return func(yield func(Approval, error) bool) {
		f := &approvals{c: c, waiting: map[string][]waiting{}, most: most, left: all,
			yield: func(a Approval) bool { return yield(a, nil) }}
		switch err := f.run(ctx); {
		case errors.Is(err, errStop):
		case ctx.Err() != nil:
			yield(Approval{}, ctx.Err())
		default:
			yield(Approval{}, fmt.Errorf("client: follow approvals: %w", err))
		}
	}
}

// approvals follows the logs of all sessions by their sequence in the stream, which contains all of them without a
// gap.
type approvals struct {
	c       *Client
	yield   func(Approval) bool
	waiting map[string][]waiting // by session
	at      uint64               // last message of the stream that has been seen
	missed  bool                 // live messages may have been missed since deleted was called
	missing map[string]absence   // of the logs of sessions with waiting approvals
	most    int                  // bytes of arguments that an approval may have
	left    int                  // bytes of arguments that more approvals may have together
}

// waiting is an approval that waits.
type waiting struct {
	Approval
	stream uint64 // sequence of its message in the stream
}

func (f *approvals) run(ctx context.Context) error {
	t, err := f.c.tap(ctx, f.c.subjects.LiveEvent("*"))
	if err != nil {
		return err
	}
	defer t.close()
	if err := f.reread(ctx, f.readOpenRuns); err != nil {
		return err
	}
	for _, list := range f.waiting {
		for _, a := range list {
			if !f.yield(a.Approval) {
				return errStop
			}
		}
	}
	for {
		if err := f.reread(ctx, f.catchUp); err != nil {
			return err
		}
		if err := f.deleted(ctx); err != nil {
			return err
		}
		missed, err := f.listen(ctx, t)
		if err != nil {
			return err
		}
		f.missed = f.missed || missed
	}
}

func (f *approvals) reread(ctx context.Context, read func(context.Context) error) error {
	return f.c.reread(ctx, f.c.o.Logger, func(ctx context.Context) (more bool, err error) {
		before := f.at
		err = read(ctx)
		return f.at > before, err
	})
}

// readOpenRuns reads the logs of the sessions whose last event belongs to a run in progress. A foreign message hides
// the last event, so it reads that log too.
func (f *approvals) readOpenRuns(ctx context.Context) error {
	f.at = 0
	for _, list := range f.waiting {
		for _, a := range list {
			f.left += len(a.Request.Args)
		}
	}
	clear(f.waiting)
	var open []string
	last := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	for m, err := range f.c.readStored(ctx, schemas.StreamEvents, f.c.subjects.Event("*"), last) {
		if err != nil {
			return err
		}
		f.at = m.seq
		session, err := f.c.subjects.ParseEvent(m.subject)
		if err != nil {
			continue // not the subject of a log
		}
		events, err := schemas.SplitLog(session, m.header, m.data)
		if n := len(events) - 1; err == nil && (events[n].RunID == "" || events[n].Name == string(schemas.EventAgentEnd)) {
			continue
		}
		open = append(open, session)
	}
	for _, session := range open {
		for m, err := range f.c.readStored(ctx, schemas.StreamEvents, f.c.subjects.Event(session), startAfter(0)) {
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
	for m, err := range f.c.readStored(ctx, schemas.StreamEvents, f.c.subjects.Event("*"), startAfter(f.at)) {
		if err == nil {
			err = f.message(ctx, m, f.emit)
		}
		if err != nil {
			return err
		}
		f.at = m.seq
	}
	return nil
}

// listen yields what arrives live. It returns when the logs must be read: because live messages were missed, or because
// it is time for a check.
func (f *approvals) listen(ctx context.Context, t *tap) (missed bool, err error) {
	check := time.NewTimer(f.c.checkEvery)
	defer check.Stop()
	for {
		if missed, err := t.missed(); missed || err != nil {
			return true, err
		}
		select {
		case m := <-t.live:
			t.took(m)
			rec, _, ok := republished(m)
			if !ok || rec.seq <= f.at {
				continue
			}
			if rec.seq > f.at+1 {
				return true, nil
			}
			if err := f.message(ctx, rec, f.emit); f.c.isTransient(err) {
				return false, nil
			} else if err != nil {
				return false, err
			}
			f.at = rec.seq
		case <-t.woken:
		case status := <-t.status:
			if status == nats.CLOSED {
				return false, nats.ErrConnectionClosed
			}
			return true, nil
		case <-check.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

func (f *approvals) emit(a Approval) error {
	if !f.yield(a) {
		return errStop
	}
	return nil
}

// message processes the approval events of a commit. A commit that cannot be decoded is skipped.
func (f *approvals) message(ctx context.Context, m storedMsg, emit func(Approval) error) error {
	session, err := f.c.subjects.ParseEvent(m.subject)
	if err != nil {
		return nil
	}
	events, err := schemas.SplitLog(session, m.header, m.data)
	if err != nil {
		return nil
	}
	if err := f.begun(session, events[0].Seq, m.seq, emit); err != nil {
		return err
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
		p := payload{c: f.c, session: session}
		e, err := p.decode(ctx, s)
		switch {
		case err == nil:
			err = f.event(e, m.seq, emit)
		case p.err == nil || errors.Is(p.err, ErrDamaged):
			// Deleting a session removes its payloads before its log. This must not end the list of all other sessions.
			f.c.o.Logger.Warn("skipped an event whose payload cannot be read", "session", session, "seq", s.Seq,
				"type", s.Name, "err", err)
			if err = nil; schemas.EventType(s.Name) == schemas.EventAgentEnd {
				err = f.resolve(session, "", nil, emit)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *approvals) event(e schemas.Event, stream uint64, emit func(Approval) error) error {
	switch d := e.Data.(type) {
	case *schemas.ApprovalRequested:
		for _, known := range f.waiting[e.Session] {
			if known.stream == stream && known.Seq == e.Seq {
				return nil // the commit is read again after a transient error
			}
		}
		a := Approval{Session: e.Session, Seq: e.Seq, Time: e.Time, RunID: e.RunID, Request: *d, Waiting: true}
		if n := len(a.Request.Args); n > min(f.most, f.left) {
			a.Request.Args, a.LeftOut = nil, n
		}
		f.left -= len(a.Request.Args)
		f.waiting[e.Session] = append(f.waiting[e.Session], waiting{a, stream})
		return emit(a)
	case *schemas.ApprovalResolved:
		return f.resolve(e.Session, d.Call, d, emit)
	case *schemas.ToolExecutionEnd:
		return f.resolve(e.Session, d.Call, nil, emit)
	case *schemas.AgentEnd:
		return f.resolve(e.Session, "", nil, emit)
	}
	return nil
}

// resolve marks a call, or with an empty key all calls of a session, as no longer waiting.
func (f *approvals) resolve(session string, call schemas.CallKey, resolved *schemas.ApprovalResolved,
	emit func(Approval) error,
) error {
	var left, ended []waiting
	for _, a := range f.waiting[session] {
		if call != "" && a.Request.Call != call {
			left = append(left, a)
			continue
		}
		f.left += len(a.Request.Args)
		a.Waiting, a.Resolved = false, resolved
		ended = append(ended, a)
	}
	if f.waiting[session] = left; len(left) == 0 {
		delete(f.waiting, session)
	}
	for _, a := range ended {
		if err := emit(a.Approval); err != nil {
			return err
		}
	}
	return nil
}
