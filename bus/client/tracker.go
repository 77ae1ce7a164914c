package client

import (
	"slices"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Tracker finds the run of a command among the items of its session, for a program that follows the session itself,
// with [Session.Watch] or [Session.History]. [Run] does the same for a program that follows nothing else. It is for one
// goroutine.
type Tracker struct {
	id      string // of the command
	run     string // its run's id, once it is known
	handled bool
	reply   *schemas.AssistantMessage
	ended   *ending
}

// NewTracker returns the tracker of a command. It has to be given the session's items from before the command on.
func NewTracker(commandID string) *Tracker { return &Tracker{id: commandID} }

// RunID is the run's id, "" until it is known.
func (t *Tracker) RunID() string { return t.run }

// Ended reports whether it is known what the command came to: the result of its run, or, as an error, that it was
// refused ([*RejectedError]) or withdrawn ([*WithdrawnError]).
func (t *Tracker) Ended() (result Result, over bool, err error) {
	if t.ended == nil {
		return Result{}, false, nil
	}
	return t.ended.result, true, t.ended.err
}

// Take reports whether an item is the command's or its run's.
func (t *Tracker) Take(i Item) (ours bool) {
	if i.Update != nil {
		return t.run != "" && (i.Update.RunID == t.run || i.Update.RunID == "")
	}
	e := i.Event
	switch d := e.Data.(type) {
	case *schemas.AgentStart:
		if e.CorrelationID == t.id || slices.Contains(d.Inputs, t.id) {
			t.run = e.RunID
		}
	case *schemas.HookDecision:
		if d.CommandID == t.id {
			t.handled, ours = t.handled || d.Handled, true
		}
	default:
		o := outcomeOf(e, t.id)
		ours = o.of
		switch {
		case o.err != nil:
			t.ended = &ending{err: o.err}
		case o.applied && t.handled:
			t.ended = &ending{result: Result{Seq: e.Seq, Handled: true}}
		case o.applied && t.run == "":
			t.run = e.RunID
		}
	}
	if t.run == "" || e.RunID != t.run {
		return ours
	}
	switch d := e.Data.(type) {
	case *schemas.MessageEnd:
		if m, ok := d.Message.Message.(*schemas.AssistantMessage); ok && !d.Interrupted {
			t.reply = m
		}
	case *schemas.AgentEnd:
		t.ended = &ending{result: Result{
			RunID: t.run, Seq: e.Seq, Reason: d.TerminationReason, ErrorMessage: d.ErrorMessage, Reply: t.reply,
			Turns: d.Turns, Usage: d.Usage, Cost: d.Usage.Cost.Total,
			Duration: time.Duration(d.DurationMs) * time.Millisecond,
		}}
	}
	return true
}

// outcome is what an event says of a command.
type outcome struct {
	of      bool // the event is about the command
	applied bool
	text    string // to be written anew
	err     error  // it has no effect
}

func outcomeOf(e *schemas.Event, id string) (o outcome) {
	switch d := e.Data.(type) {
	case *schemas.CommandAccepted:
		o.of = d.CommandID == id
	case *schemas.CommandApplied:
		o.of = d.CommandID == id
		o.applied, o.text = o.of, d.Text
	case *schemas.CommandRejected:
		// A runner that cannot read a command names it by the header's value as it is.
		if o.of = d.CommandID == id || d.CommandID == schemas.EncodeHeaderValue(id); o.of {
			o.err = &RejectedError{Session: e.Session, CommandID: id, Kind: d.Kind, Code: d.Code, Reason: d.Reason}
		}
	case *schemas.CommandSuperseded:
		if o.of = d.CommandID == id; o.of {
			o.err = &WithdrawnError{Session: e.Session, CommandID: id, Kind: d.Kind, By: d.By, Superseded: true}
		}
	case *schemas.CommandWithdrawn:
		if o.of = d.CommandID == id; o.of {
			o.err = &WithdrawnError{Session: e.Session, CommandID: id, Kind: d.Kind, By: d.By}
		}
	}
	return o
}
