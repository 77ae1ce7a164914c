package loop

import (
	"encoding/json"
	"fmt"

	"github.com/loopbus/loopbus/schemas"
)

// The limits of what may wait in a session's queues together: inputs, and bytes by [schemas.Messages.Size], which is
// their size in memory and in a snapshot. A single input may wait whatever its size.
const (
	MaxQueued      = 1000
	MaxQueuedBytes = 32 << 20
)

// MaxContextBytes is what a session's context may have, by [schemas.Messages.Size], together with the inputs that wait,
// and what it may have by [schemas.Messages.JSONSize] when a model is called. No vendor takes a request that large, nor
// does a model behind the bus. A run that fails leaves its input in the context, so without a limit a client that may
// send prompts could grow the session until no runner can load it.
const MaxContextBytes = 64 << 20

// Texts of rejections that clients of pi know to the letter.
const (
	TextBusyPrompt = "Agent is already processing a prompt. " +
		"Use steer() or followUp() to queue messages, or wait for completion."
	TextBusyContinue = "Agent is already processing. Wait for completion before continuing."
	TextNoMessages   = "No messages to continue from"
	TextFromReply    = "Cannot continue from message role: assistant"
)

// Rules are the differences between a session's commands on the bus and in the in-memory Agent.
type Rules struct {
	// IdleQueues leaves a steer or follow_up that finds the session idle in its queue until the next run, as pi does.
	// Without it the input starts a run: on a bus the sender cannot know that the run ended a moment ago.
	IdleQueues bool
}

// Accept returns the events that a command leads to, in order, all with the command's id as causation id. It returns
// none if the command changes nothing: the log knows the command, or it answers something that has ended. Tool results
// do not go through Accept, see [State.Call]. raw is the command's payload as it arrived.
//
// The outcome of an input (prompt, steer, follow_up, continue) comes later, when it enters the transcript or is
// withdrawn; every other command has its outcome among the events.
func Accept(s *State, c schemas.Command, raw json.RawMessage, rules Rules) []schemas.EventData {
	if s.Known.Has(c.ID) {
		return nil
	}
	a := acceptance{s: s, c: c, raw: raw}
	switch d := c.Data.(type) {
	case *schemas.Prompt:
		return a.prompt(d)
	case *schemas.Steer:
		return a.queue(schemas.QueueSteering, d.Input, rules)
	case *schemas.FollowUp:
		return a.queue(schemas.QueueFollowUp, d.Input, rules)
	case *schemas.Continue:
		return a.resume()
	case *schemas.Abort:
		return a.abort(d)
	case *schemas.ClearQueue:
		return a.clear(d.Queue)
	case *schemas.CancelInput:
		return a.cancel(d.InputID)
	case *schemas.Branch:
		return a.branch(d)
	case *schemas.Navigate:
		return a.navigate()
	case *schemas.Compact:
		return a.compact()
	case *schemas.Label:
		return a.label(d)
	case *schemas.Name:
		return a.applied(d)
	case *schemas.Custom:
		return a.applied(d)
	case *schemas.AddMessage:
		return a.addMessage(d)
	case *schemas.Approve:
		return a.answer(true, d.ApprovalAnswer, d.Args)
	case *schemas.Deny:
		return a.answer(false, d.ApprovalAnswer, nil)
	case *schemas.SubagentPrompt:
		return a.subagentPrompt(d)
	case *schemas.SubagentAbort:
		return a.subagentAbort(d)
	case *schemas.SubagentResult:
		return a.subagentResult(d)
	case *schemas.Timer:
		switch {
		case d.Name == schemas.TimerRetry, d.Name == schemas.TimerSubagents, d.Name == schemas.TimerCheck:
			return nil // its only purpose is to wake the session
		case d.Name == schemas.TimerApproval+"_"+d.Call:
			return a.expired(d)
		}
		if s.Run == nil || s.Run.ID != d.RunID || s.Run.Abort != nil {
			return nil
		}
	}
	return a.applied()
}

type acceptance struct {
	s   *State
	c   schemas.Command
	raw json.RawMessage
}

func (a acceptance) kind() schemas.CommandKind { return a.c.Data.CommandKind() }

func (a acceptance) accepted(q schemas.Queue, more ...schemas.EventData) []schemas.EventData {
	d := &schemas.CommandAccepted{
		CommandID: a.c.ID, Kind: a.kind(), Queue: q, Source: a.c.Source, Data: a.raw, Follows: follows(more),
		InboxPosition: a.s.Known.Position(a.c.InboxPosition),
	}
	if !a.c.Time.IsZero() {
		d.Time = new(a.c.Time) // a pointer into a would keep the payload as long as the time
	}
	return append([]schemas.EventData{d}, more...)
}

func (a acceptance) applied(before ...schemas.EventData) []schemas.EventData {
	return a.accepted("", append(before, &schemas.CommandApplied{CommandID: a.c.ID, Kind: a.kind()})...)
}

func (a acceptance) rejected(code schemas.RejectCode, reason string) []schemas.EventData {
	return []schemas.EventData{&schemas.CommandRejected{CommandID: a.c.ID, Kind: a.kind(), Code: code, Reason: reason,
		InboxPosition: a.s.Known.Position(a.c.InboxPosition)}}
}

// full returns the rejection of an input that may not be added to the queues, or nil.
func (a acceptance) full(in schemas.Input) []schemas.EventData {
	count := len(a.s.Prompts) + len(a.s.Steering) + len(a.s.FollowUp)
	bytes, size := a.s.QueuedBytes(), in.AsMessages(a.c.Time).Size()
	switch {
	case count >= MaxQueued:
		return a.rejected(schemas.RejectQueueFull, fmt.Sprintf("%d inputs are queued already", MaxQueued))
	case count > 0 && bytes+size > MaxQueuedBytes:
		return a.rejected(schemas.RejectQueueFull, fmt.Sprintf("the inputs that are queued have %d bytes, with the %d of "+
			"this one more than %d", bytes, size, MaxQueuedBytes))
	}
	return a.tooMuch(bytes, size)
}

// tooMuch returns the rejection of a message that the context would have no room for behind the inputs that wait, or
// nil. An empty context takes any message: the limit is one on what piles up.
func (a acceptance) tooMuch(waiting, size int) []schemas.EventData {
	has := a.s.contextBytes() + waiting
	if has == 0 || has+size <= MaxContextBytes {
		return nil
	}
	return a.rejected(schemas.RejectState, fmt.Sprintf("the context and the inputs that wait have %d bytes, with the %d "+
		"of this message more than %d: compact the session, move its leaf or use another one", has, size, MaxContextBytes))
}

func (a acceptance) prompt(d *schemas.Prompt) []schemas.EventData {
	queue := schemas.QueuePrompts
	if a.s.Busy() || len(a.unbegun()) > 0 && d.WhenBusy == schemas.BusyInterrupt {
		switch d.WhenBusy {
		case schemas.BusyReject:
			return a.rejected(schemas.RejectBusy, TextBusyPrompt)
		case schemas.BusySteer, schemas.BusyFollowUp:
			queue = a.joining(d.WhenBusy)
		case schemas.BusyInterrupt:
			return a.interrupt(d)
		}
	}
	if rejected := a.full(d.Input); rejected != nil {
		return rejected
	}
	return a.accepted(queue)
}

// joining returns the queue of an input that is to join the run under way, if there is one.
func (a acceptance) joining(busy schemas.WhenBusy) schemas.Queue {
	switch {
	case a.s.Run == nil:
		return schemas.QueuePrompts
	case busy == schemas.BusySteer:
		return schemas.QueueSteering
	}
	return schemas.QueueFollowUp
}

// interrupt supersedes the waiting prompts: a run under way is aborted and the newest prompt comes next. It takes
// their place, so it is accepted however full the queues are, and of all interrupting prompts only one waits. It is
// rejected only if it does not fit into the context.
func (a acceptance) interrupt(d *schemas.Prompt) []schemas.EventData {
	if rejected := a.tooMuch(0, d.AsMessages(a.c.Time).Size()); rejected != nil {
		return rejected
	}
	queue, waiting := schemas.QueueInterrupt, a.s.Prompts
	if !a.s.Busy() {
		queue, waiting = schemas.QueuePrompts, a.unbegun()
	}
	var superseded []schemas.EventData
	for _, in := range waiting {
		superseded = append(superseded, &schemas.CommandSuperseded{CommandID: in.CommandID, Kind: in.Kind, By: a.c.ID})
	}
	return a.accepted(queue, superseded...)
}

// unbegun returns the inputs of clients that wait for a run. The result of a sub-agent may wait as well: nobody would
// send that again.
func (a acceptance) unbegun() (own []Input) {
	for _, in := range a.s.Prompts {
		if in.Kind != schemas.CommandSubagentResult {
			own = append(own, in)
		}
	}
	return own
}

func (a acceptance) queue(q schemas.Queue, in schemas.Input, rules Rules) []schemas.EventData {
	if rejected := a.full(in); rejected != nil {
		return rejected
	}
	if a.s.Idle() && len(a.s.Prompts) == 0 && !rules.IdleQueues {
		q = schemas.QueuePrompts
	}
	return a.accepted(q)
}

func (a acceptance) resume() []schemas.EventData {
	switch {
	case a.s.Busy() || len(a.s.Prompts) > 0:
		return a.rejected(schemas.RejectBusy, TextBusyContinue)
	case len(a.s.Messages) == 0:
		return a.rejected(schemas.RejectState, TextNoMessages)
	case endsWithReply(a.s) && !a.s.Queued():
		return a.rejected(schemas.RejectState, TextFromReply)
	}
	return a.accepted(schemas.QueuePrompts)
}

func (a acceptance) abort(d *schemas.Abort) []schemas.EventData {
	var withdrawn []schemas.EventData
	if d.ClearQueue {
		withdrawn = a.withdraw(a.s.Prompts, a.s.Steering, a.s.FollowUp)
	}
	if !a.s.Busy() && len(withdrawn) == 0 { // the next run may have to wait for its turn: to abort it is to withdraw it
		own := a.unbegun()
		withdrawn = a.withdraw(own[:min(1, len(own))])
	}
	if !a.s.Busy() && len(withdrawn) == 0 && !a.s.works() {
		return a.rejected(schemas.RejectNoRun, "no run is under way")
	}
	return a.applied(withdrawn...)
}

func (a acceptance) withdraw(queues ...[]Input) (events []schemas.EventData) {
	for _, q := range queues {
		for _, in := range q {
			events = append(events, &schemas.CommandWithdrawn{CommandID: in.CommandID, Kind: in.Kind, By: a.c.ID})
		}
	}
	return events
}

func (a acceptance) clear(queue string) []schemas.EventData {
	switch schemas.Queue(queue) {
	case schemas.QueueSteering, "steer":
		return a.applied(a.withdraw(a.s.Steering)...)
	case schemas.QueueFollowUp:
		return a.applied(a.withdraw(a.s.FollowUp)...)
	case schemas.QueuePrompts:
		return a.applied(a.withdraw(a.s.Prompts)...)
	}
	return a.applied(a.withdraw(a.s.Prompts, a.s.Steering, a.s.FollowUp)...)
}

func (a acceptance) cancel(id string) []schemas.EventData {
	for _, q := range [][]Input{a.s.Prompts, a.s.Steering, a.s.FollowUp} {
		for _, in := range q {
			if in.CommandID == id {
				return a.applied(a.withdraw([]Input{in})...)
			}
		}
	}
	if a.s.Known.Has(id) {
		return a.rejected(schemas.RejectConsumed, fmt.Sprintf("input %q is not queued any more", id))
	}
	return a.rejected(schemas.RejectNotFound, fmt.Sprintf("no input %q", id))
}
