package loop

import (
	"fmt"

	"github.com/loopbus/loopbus/schemas"
)

// Step is the next thing to do: [Emit], [StartRun], [CallModel], [RunTools], [Retry], [StartCompaction], [Summarize],
// [Navigate], [AbortSubagent], [Report] or [Rest].
type Step interface{ step() }

// Emit tells the driver to append Data. CausationID is the command that caused the event, empty for the run's command.
// The driver fills in times and durations, which only a clock knows (AgentEnd.DurationMs).
type Emit struct {
	Data        schemas.EventData
	CausationID string
}

// StartRun tells the driver to resolve the run's configuration and append agent_start with these members.
type StartRun struct {
	Inputs       []Input
	SkipSteering bool
}

// CallModel tells the driver to stream a reply to [State.Transcript]. If Aborted, the run is to end: the driver calls
// no model and appends an aborted reply. Refused is the reason why no model may be called: the driver appends a failed
// reply that ends the run for that reason. Unready is why no model can be called: the run fails with that text.
type CallModel struct {
	Aborted bool
	Refused schemas.TerminationReason
	Unready string
}

// RunTools tells the driver to begin these calls of the turn, by index. For each call in order the driver appends
// tool_execution_start, unless the call has begun, prepares it, and appends tool_execution_end at once if it cannot be
// executed. Only then it dispatches the other calls together. Their results arrive in any order, as commands or from
// the executor. A call for which [State.Refusal] returns a text is never executed. If Aborted, the run is to end and
// the driver cancels the calls that are running.
type RunTools struct {
	Calls   []int
	Aborted bool
}

// Rest means that there is nothing to do until a command or a result arrives.
type Rest struct{}

func (Emit) step()      {}
func (StartRun) step()  {}
func (CallModel) step() {}
func (RunTools) step()  {}
func (Rest) step()      {}

// Next chooses the next step. It does not change the state, and it always chooses the same step for the same state.
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
	// A continue from the tail of a reply serves what is queued, as a prompt does. Accept has checked that there is
	// something to continue from, but what was queued then may have been withdrawn since.
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

// nextBetweenTurns returns the step after agent_start or a turn_end. Steering is polled before the first model call and
// after every turn; follow-ups are polled only where the run would end.
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

// nextTurn starts the next turn, after a compaction if the context leaves no room for the turn.
func nextTurn(s *State, r *Run) Step {
	if !r.Detached && s.compactionDue() {
		return StartCompaction{Reason: schemas.CompactThreshold}
	}
	return Emit{Data: &schemas.TurnStart{TurnIndex: r.Turns}}
}

// ended reports whether the run ends whatever is queued: queued inputs stay in their queues, but inputs that have left
// a queue are carried out first.
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
		messages = []string{r.Failure} // as in pi, the agent_end of a failed run names no other message
	}
	if messages == nil {
		messages = []string{}
	}
	return Emit{Data: &schemas.AgentEnd{
		Messages: messages, TerminationReason: reason, ErrorMessage: last.Error, Turns: r.Turns, Usage: r.Usage,
	}}
}

// Stop returns the event that ends the run after a finished turn because a hook requests it, before any queue is
// polled, so that queued inputs wait for the next run. It returns nil if no turn has just finished.
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
	if n := s.contextJSON(); n > MaxContextBytes {
		return CallModel{Unready: fmt.Sprintf("The context has %d bytes of JSON, more than %d: compact the session, move "+
			"its leaf or use another one", n, MaxContextBytes)}
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

// windowBytes is how many bytes of arguments the calls of a session in flight may have together; the first is always in
// flight. All sessions share one stream of calls, 256 MiB by default, which a few with large arguments could fill.
const windowBytes = 1 << 20

// BeyondWindow reports, by the index of the call, which calls of the turn under way must wait before they are
// dispatched: at most window calls of one tool are in flight at once, and calls with 1 MiB of arguments; a window of
// zero or less is no limit. The last calls wait, so that a call which may be dispatched now may also be dispatched
// later, unless a call before it had to wait for approval. Sub-agents have their own limits and take no place in the
// window.
func (s *State) BeyondWindow(window int) []bool {
	if s.Run == nil || s.Run.Turn == nil {
		return nil
	}
	beyond, inFlight := make([]bool, len(s.Run.Turn.Calls)), map[string]int{}
	if window <= 0 {
		return beyond
	}
	size := 0
	for i := range s.Run.Turn.Calls {
		c := &s.Run.Turn.Calls[i]
		if c.End != nil || c.AwaitsApproval() || s.BeginsSubagent(*c) {
			continue
		}
		before := size
		inFlight[c.ToolCall.Name]++
		size += len(c.ToolCall.Arguments)
		beyond[i] = inFlight[c.ToolCall.Name] > window || before > 0 && size > windowBytes
	}
	return beyond
}
