package crashpoints_test

import (
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// legal returns what is wrong with a log that has come to its end: what docs/architecture.md promises of every log, and
// that every takeover in the middle of a run is explained by its run_resumed.
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

// reader goes through a log event by event.
type reader struct {
	state         *loop.State // before the event
	running, turn bool
	open          map[schemas.CallKey]bool // calls without a result
	streams       map[string]bool          // messages without an end
	outcomes      map[string]int           // by command

	source string // of the event before
	began  uint64 // sequence before the first event that this source wrote in a row

	driver  string // source of the last step, which taking in a command is not
	closing string // id of the reply that the step before has closed as interrupted
	owing   bool   // that step was the first of a runner
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

// place says what is wrong with an event at this place.
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
		return "does not belong there"
	}
	return ""
}

// takeover holds the first step of a runner that found a run under way against what it found.
func (r *reader) takeover(e schemas.Event) string {
	if takesIn(e.Data) {
		if r.state.Run != nil && interrupted(r.state) == "" { // it has found a run that only waits
			r.driver, r.closing, r.owing = e.Source, "", false
		}
		return ""
	}
	where, closing := interrupted(r.state), r.closing
	if e.Source != r.driver {
		closing = "" // the process that closed it died before it said so
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
		return "a runner goes on with a run without saying that it was interrupted " + where
	}
	return ""
}

// takesIn reports whether an event is part of taking in a command, which is done before a run is resumed.
func takesIn(data schemas.EventData) bool {
	switch d := data.(type) {
	case *schemas.CommandAccepted, *schemas.CommandRejected, *schemas.CommandSuperseded, *schemas.CommandWithdrawn,
		*schemas.SubagentEnd,
		*schemas.ApprovalResolved: // which follows an approve or a deny; nothing here is denied by time
		return true
	case *schemas.CommandApplied:
		switch d.Kind {
		case schemas.CommandPrompt, schemas.CommandSteer, schemas.CommandFollowUp, schemas.CommandContinue,
			schemas.CommandSubagentResult, schemas.CommandSubagentPrompt:
			return false // they are applied by a step, when they enter the transcript
		}
		return true
	}
	return false
}

// explained wants a run_resumed to say what is so.
func (r *reader) explained(e schemas.Event, d *schemas.RunResumed, closing, where string) string {
	if d.MessageID != closing || d.From >= e.Seq || d.From < r.began {
		return fmt.Sprintf("it names message %q, from %d; the reply closed is %q, and the runner writes since %d",
			d.MessageID, d.From, closing, r.began)
	}
	if d.Reason != where {
		return fmt.Sprintf("its reason is %q, but the run was interrupted %s", d.Reason, where)
	}
	return ""
}

// streaming is why a run is resumed whose reply was broken off.
const streaming = "while the model was streaming"

// interrupted says where the work on a run was left, "" where the run only waits.
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
