package client

import (
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// Tracker finds the run of a command among the items of its session. It is for programs that follow the session
// themselves with [Session.Watch] or [Session.History]; [Run] uses one internally. A Tracker is not safe for
// concurrent use.
type Tracker struct {
	id      string // of the command
	run     string // id of the run, once it is known
	handled bool
	reply   *schemas.AssistantMessage
	ended   *runEnd
}

// NewTracker returns a tracker for a command. Pass it the items of the session from before the command on.
func NewTracker(commandID string) *Tracker { return &Tracker{id: commandID} }

// RunID returns the id of the run; "" until it is known.
func (t *Tracker) RunID() string { return t.run }

// Ended returns the outcome of the command once it is known: the result of its run, or a [*RejectedError] or
// [*WithdrawnError]. over is false until then.
func (t *Tracker) Ended() (result Result, over bool, err error) {
	if t.ended == nil {
		return Result{}, false, nil
	}
	return t.ended.result, true, t.ended.err
}

// Observe processes the next item of the session and reports whether it belongs to the command or to its run.
func (t *Tracker) Observe(i Item) (ours bool) {
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
		ours = o.about
		switch {
		case o.err != nil:
			t.ended = &runEnd{err: o.err}
		case o.applied && t.handled:
			t.ended = &runEnd{result: Result{Seq: e.Seq, Handled: true}}
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
		t.ended = &runEnd{result: Result{
			RunID: t.run, Seq: e.Seq, Reason: d.TerminationReason, ErrorMessage: d.ErrorMessage, Reply: t.reply,
			Turns: d.Turns, Usage: d.Usage, Cost: d.Usage.Cost.Total,
			Duration: schemas.Milliseconds(d.DurationMs),
		}}
	}
	return true
}

// outcome is what an event tells about a command.
type outcome struct {
	about   bool // the event is about the command
	applied bool
	text    string // for the user to edit, after a navigation to a user's message
	err     error  // the command was refused or withdrawn
}

func outcomeOf(e *schemas.Event, id string) (o outcome) {
	switch d := e.Data.(type) {
	case *schemas.CommandAccepted:
		o.about = d.CommandID == id
	case *schemas.CommandApplied:
		o.about = d.CommandID == id
		o.applied, o.text = o.about, d.Text
	case *schemas.CommandRejected:
		// A runner that cannot decode a command names it by the undecoded header value.
		if o.about = d.CommandID == id || d.CommandID == schemas.EncodeHeaderValue(id); o.about {
			o.err = &RejectedError{Session: e.Session, CommandID: id, Kind: d.Kind, Code: d.Code, Reason: d.Reason}
		}
	case *schemas.CommandSuperseded:
		if o.about = d.CommandID == id; o.about {
			o.err = &WithdrawnError{Session: e.Session, CommandID: id, Kind: d.Kind, By: d.By, Superseded: true}
		}
	case *schemas.CommandWithdrawn:
		if o.about = d.CommandID == id; o.about {
			o.err = &WithdrawnError{Session: e.Session, CommandID: id, Kind: d.Kind, By: d.By}
		}
	}
	return o
}
