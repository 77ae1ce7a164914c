package loop

import (
	"github.com/loopbus/loopbus/schemas"
)

// Step is what is to be done next: [Emit], [StartRun], [CallModel], [RunTools], [Retry], [StartCompaction],
// [Summarize], [Navigate], [AbortSubagent], [Report] or [Rest].
type Step interface{ step() }

// Emit: append this event. CausationID is the command it goes back to, empty where the run's command is. The times and
// durations that only a clock knows (AgentEnd.DurationMs) are the driver's to fill in.
type Emit struct {
	Data        schemas.EventData
	CausationID string
}

// StartRun: resolve the configuration and append agent_start with these members.
type StartRun struct {
	Inputs       []Input
	SkipSteering bool
}

// CallModel: stream a reply to [State.Transcript]. Aborted says that the run is to end: no model is called, the reply
// is an aborted one. Refused says why no model may be called: the reply is a failed one that ends the run for that
// reason. Unready says why none can be called: the run fails with that.
type CallModel struct {
	Aborted bool
	Refused schemas.TerminationReason
	Unready string
}

// RunTools: begin these calls of the turn, by index. For each in order: append tool_execution_start (unless it has
// begun), prepare it, and append tool_execution_end at once if it cannot be executed. Only then dispatch the others,
// together. Their results arrive as commands or from the executor, in any order. What [State.Refusal] gives a text for
// is never executed. Aborted says that the run is to end: what is out is to be cancelled.
type RunTools struct {
	Calls   []int
	Aborted bool
}

// Rest: nothing to do until something arrives.
type Rest struct{}

func (Emit) step()      {}
func (StartRun) step()  {}
func (CallModel) step() {}
func (RunTools) step()  {}
func (Rest) step()      {}

// Next chooses the next step. It never changes the state, and always chooses the same for the same state.
func Next(s *State) Step {
	r := s.Run
	switch {
	case len(s.Owed) > 0:
		return s.Owed[0].step()
	case s.toAbort() != nil:
		return s.toAbort().abort(s)
	case r == nil:
		return nextIdle(s)
	case r.Turn != nil && r.Turn.Reply != nil && r.Turn.Reply.Failed():
		return Emit{Data: &schemas.TurnEnd{
			MessageID: r.Turn.ReplyID, ToolResults: []string{}, ContextUsage: s.ContextUsage(),
		}}
	case r.Open != nil:
		return Emit{Data: &schemas.MessageEnd{MessageID: r.Open.ID, Message: r.Open.Message}, CausationID: openCause(r)}
	case r.Turn == nil:
		return nextBetweenTurns(s, r)
	case len(r.Inject) > 0:
		return nextInjection(s, r)
	case r.Turn.Reply == nil:
		return nextReply(s, r)
	case r.Retrying != nil:
		return Emit{Data: &schemas.AutoRetryEnd{Success: true, Attempt: r.Retrying.Attempt}}
	}
	return nextToolStep(s, r)
}

func nextIdle(s *State) Step {
	switch {
	case s.reports():
		return s.report()
	case s.Compacting != nil:
		return s.nextCompaction()
	case s.Navigating != nil:
		return s.nextNavigation()
	case s.dueAtRest():
		return StartCompaction{Reason: schemas.CompactThreshold}
	}
	if len(s.Prompts) == 0 {
		return Rest{}
	}
	in := s.Prompts[0]
	if in.Kind != schemas.CommandContinue {
		return StartRun{Inputs: []Input{in}}
	}
	// Continue from the tail of a reply serves what is queued, as a prompt does. Accept has made sure
	// that there is something to continue from; what was queued then may have been withdrawn since.
	if steering := polled(s.Steering, s.Settings.SteeringMode); endsWithReply(s) && len(steering) > 0 {
		return StartRun{Inputs: append([]Input{in}, steering...), SkipSteering: true}
	} else if endsWithReply(s) {
		return StartRun{Inputs: append([]Input{in}, polled(s.FollowUp, s.Settings.FollowUpMode)...)}
	}
	return StartRun{Inputs: []Input{in}}
}

func endsWithReply(s *State) bool {
	n := len(s.Messages)
	return n > 0 && s.Messages[n-1].Message.MessageRole() == schemas.RoleAssistant
}

// nextBetweenTurns is what follows agent_start or a turn_end. Steering is polled before the first model call and after
// every turn; follow-ups are polled only where the run would end.
func nextBetweenTurns(s *State, r *Run) Step {
	last := r.Last
	switch {
	case s.Compacting != nil:
		return s.nextCompaction()
	case last == nil:
		return nextTurn(s, r)
	}
	if w := budgetWarning(s, r); w != nil {
		return Emit{Data: w}
	}
	if step := nextAfterFailure(s, r, last); step != nil {
		return step
	}
	if reason, over := ended(s, r, last); over {
		return end(r, last, reason)
	}
	switch {
	case len(r.Inject) > 0:
		return nextTurn(s, r)
	case len(s.Steering) > 0:
		return poll(s, polled(s.Steering, s.Settings.SteeringMode))
	case last.Continue:
		return nextTurn(s, r)
	case len(s.FollowUp) > 0:
		return poll(s, polled(s.FollowUp, s.Settings.FollowUpMode))
	case s.joins():
		return Rest{}
	case last.Terminated:
		return end(r, last, schemas.EndTerminate)
	}
	return end(r, last, schemas.EndNoToolCalls)
}

// nextTurn begins the next turn, once the context leaves room for it.
func nextTurn(s *State, r *Run) Step {
	if !r.Detached && s.compactionDue() {
		return StartCompaction{Reason: schemas.CompactThreshold}
	}
	return Emit{Data: &schemas.TurnStart{TurnIndex: r.Turns}}
}

// ended reports whether the run is over whatever is queued: queued inputs stay where they are. What
// has left a queue is carried out first.
func ended(s *State, r *Run, last *Outcome) (schemas.TerminationReason, bool) {
	switch {
	case last.Failed && last.Reason != "":
		return last.Reason, true
	case r.Abort != nil && (last.Failed || len(r.Inject) == 0):
		return r.Abort.Reason, true
	case last.Aborted:
		return schemas.EndAbort, true
	case last.Failed:
		return schemas.EndError, true
	case len(r.Inject) > 0 || !last.Continue && len(s.Steering) == 0 && len(s.FollowUp) == 0:
		return "", false
	case overTurns(s, r):
		return schemas.EndMaxTurns, true
	case overBudget(s, r):
		return schemas.EndBudget, true
	}
	return "", false
}

func overTurns(s *State, r *Run) bool {
	most := s.Config.Limits.MaxTurns
	return most > 0 && r.Turns >= most
}

func end(r *Run, last *Outcome, reason schemas.TerminationReason) Step {
	messages := r.New
	if r.Failure != "" {
		messages = []string{r.Failure} // as in pi, a failed run's agent_end names nothing else
	}
	if messages == nil {
		messages = []string{}
	}
	return Emit{Data: &schemas.AgentEnd{
		Messages: messages, TerminationReason: reason, ErrorMessage: last.Error, Turns: r.Turns, Usage: r.Usage,
	}}
}

// Stop is the event that ends the run after a finished turn because a hook asked for it, before any queue is polled,
// so that what is queued waits for the next run. It returns nil where no turn has just been finished.
func (s *State) Stop() schemas.EventData {
	if !s.AtSteeringPoll() || s.Run.Turn != nil {
		return nil
	}
	return end(s.Run, s.Run.Last, schemas.EndStopRequested).(Emit).Data
}

func nextReply(s *State, r *Run) Step {
	if r.Abort != nil {
		return CallModel{Aborted: true}
	}
	if r.Unready != "" {
		return CallModel{Unready: r.Unready}
	}
	if s.AtSteeringPoll() && len(s.Steering) > 0 {
		return poll(s, polled(s.Steering, s.Settings.SteeringMode))
	}
	if overBudget(s, r) {
		return CallModel{Refused: schemas.EndBudget}
	}
	if w := budgetWarning(s, r); w != nil {
		return Emit{Data: w}
	}
	return CallModel{}
}
