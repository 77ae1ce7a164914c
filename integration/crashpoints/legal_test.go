package crashpoints_test

import (
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// legal returns what is wrong with the log of a session at rest. It checks what docs/architecture.md promises of every
// log, and that a run_resumed explains every takeover in the middle of a run.
func legal(log []schemas.Event) (wrongs []string) {
	r := reader{state: new(loop.State), open: map[schemas.CallKey]bool{}, streams: map[string]bool{},
		outcomes: map[string]int{}}
	for _, e := range log {
		if wrong := r.event(e); wrong != "" {
			wrongs = append(wrongs, fmt.Sprintf("event %d, %s: %s", e.Seq, e.Type(), wrong))
		}
	}
	if r.running || r.turn || len(r.open) > 0 || len(r.streams) > 0 {
		wrongs = append(wrongs, "the log ends in the middle of a run")
	}
	for id, n := range r.outcomes {
		if n != 1 {
			wrongs = append(wrongs, fmt.Sprintf("command %s has %d outcomes", id, n))
		}
	}
	return wrongs
}

// reader checks a log event by event.
type reader struct {
	state         *loop.State // before the event
	running, turn bool
	open          map[schemas.CallKey]bool // calls without a result
	streams       map[string]bool          // messages without an end
	outcomes      map[string]int           // by command

	source string // of the last event
	began  uint64 // sequence before the first of the consecutive events of this source

	driver  string // source of the last step; accepting a command is not a step
	closing string // id of the reply that the last step has closed as interrupted
	owing   bool   // that step was the first one of a runner
}

func (r *reader) event(e schemas.Event) (wrong string) {
	if e.Source != r.source {
		r.source, r.began = e.Source, e.Seq-1
	}
	wrong = r.takeover(e)
	if bad := r.place(e); bad != "" {
		wrong = bad
	}
	if err := r.state.Apply(e); err != nil {
		wrong = err.Error()
	}
	return wrong
}

// place returns what is wrong with an event at this position, or "".
func (r *reader) place(e schemas.Event) string {
	fits := true
	switch d := e.Data.(type) {
	case *schemas.AgentStart:
		fits, r.running = !r.running, true
	case *schemas.AgentEnd:
		fits, r.running = r.running && !r.turn, false
	case *schemas.TurnStart:
		fits, r.turn = r.running && !r.turn, true
	case *schemas.TurnEnd:
		fits, r.turn = r.turn && len(r.open) == 0, false
	case *schemas.MessageStart:
		fits, r.streams[d.MessageID] = r.turn && len(r.streams) == 0, true
	case *schemas.MessageEnd:
		fits = r.streams[d.MessageID]
		delete(r.streams, d.MessageID)
	case *schemas.ToolExecutionStart:
		fits, r.open[schemas.NewCallKey(e.Seq)] = r.turn, true
	case *schemas.ToolExecutionEnd:
		fits = r.open[d.Call]
		delete(r.open, d.Call)
	case *schemas.CommandAccepted:
		_, known := r.outcomes[d.CommandID]
		fits, r.outcomes[d.CommandID] = !known, 0
	case *schemas.CommandApplied:
		r.outcomes[d.CommandID]++
	case *schemas.CommandRejected:
		r.outcomes[d.CommandID]++
	case *schemas.CommandSuperseded:
		r.outcomes[d.CommandID]++
	case *schemas.CommandWithdrawn:
		r.outcomes[d.CommandID]++
	}
	if !fits {
		return "the event is not allowed at this position"
	}
	return ""
}

// takeover checks the first step of a runner that has taken over an unfinished run.
func (r *reader) takeover(e schemas.Event) string {
	if partOfAcceptance(e.Data) {
		if r.state.Run != nil && interrupted(r.state) == "" { // the run that the runner took over only waits for messages
			r.driver, r.closing, r.owing = e.Source, "", false
		}
		return ""
	}
	where, closing := interrupted(r.state), r.closing
	if e.Source != r.driver {
		closing = "" // the runner that closed the reply died before it wrote run_resumed
	}
	owes := r.owing || e.Source != r.driver && where != ""
	r.driver, r.closing, r.owing = e.Source, "", false
	switch d := e.Data.(type) {
	case *schemas.RunResumed:
		if closing != "" {
			where = streaming
		}
		return r.explained(e, d, closing, where)
	case *schemas.MessageEnd:
		if d.Interrupted {
			r.closing, r.owing = d.MessageID, owes
			return ""
		}
	}
	if owes {
		return "a runner continues a run without a run_resumed that says that it was interrupted " + where
	}
	return ""
}

// partOfAcceptance reports whether an event belongs to the acceptance of a command: such events may precede
// run_resumed.
func partOfAcceptance(data schemas.EventData) bool {
	switch d := data.(type) {
	case *schemas.CommandAccepted, *schemas.CommandRejected, *schemas.CommandSuperseded, *schemas.CommandWithdrawn,
		*schemas.SubagentEnd,
		*schemas.ApprovalResolved: // follows an approve or a deny; no approval expires in these scenarios
		return true
	case *schemas.CommandApplied:
		switch d.Kind {
		case schemas.CommandPrompt, schemas.CommandSteer, schemas.CommandFollowUp, schemas.CommandContinue,
			schemas.CommandSubagentResult, schemas.CommandSubagentPrompt:
			return false // a step applies them, when they enter the transcript
		}
		return true
	}
	return false
}

// explained returns what is wrong with a run_resumed, or "".
func (r *reader) explained(e schemas.Event, d *schemas.RunResumed, closing, where string) string {
	if d.MessageID != closing || d.From >= e.Seq || d.From < r.began {
		return fmt.Sprintf("it names message %q and from %d; the closed reply is %q, and the runner writes since %d",
			d.MessageID, d.From, closing, r.began)
	}
	if d.Reason != where {
		return fmt.Sprintf("its reason is %q, but the run was interrupted %s", d.Reason, where)
	}
	return ""
}

// streaming is the reason in run_resumed if a reply was interrupted.
const streaming = "while the model was streaming"

// interrupted returns the reason that a run_resumed at this state has to give; "" if the run only waits for messages.
func interrupted(s *loop.State) string {
	if s.Run == nil {
		return ""
	}
	if t := s.Run.Turn; t != nil && t.Streaming != "" {
		return streaming
	}
	switch step := loop.Next(s).(type) {
	case loop.CallModel:
		return "before the model was called"
	case loop.StartCompaction, loop.Summarize:
		return "before the context was summed up"
	case loop.AbortSubagent:
		return "before a sub-agent was told to stop"
	case loop.Emit:
		return fmt.Sprintf("before %s", step.Data.EventType())
	case loop.RunTools:
		for _, i := range step.Calls {
			if s.Run.Turn.Calls[i].Key == "" && !s.Sequential() {
				return "before all tool calls were dispatched"
			}
		}
	}
	return ""
}
