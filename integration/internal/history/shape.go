package history

import (
	"slices"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// checkShape checks that runs, turns and messages start and end in pairs, that each user message has the text of the
// one command it came from, and that a run that ended normally left no steering or follow-up input in its queues.
func (s *sessionCheck) checkShape() {
	w := &walk{sessionCheck: s, waiting: map[string]bool{}, brought: map[string]Command{}}
	for _, cmd := range s.cmds {
		if o := s.outcomes[cmd.ID]; o != nil {
			for _, id := range o.messages {
				w.brought[id] = cmd
			}
		}
	}
	for _, e := range s.log {
		w.event(e)
	}
	end := uint64(len(s.log))
	for _, open := range []struct{ what, id string }{{"run", w.run}, {"turn", w.turn}, {"message", w.message}} {
		if open.id != "" {
			s.fail(Stuck, end, nil, "%s %s has not ended", open.what, open.id)
		}
	}
}

// walk is the state of checkShape: what is open at its position in the log.
type walk struct {
	*sessionCheck
	run, turn, message string
	reply              *schemas.AssistantMessage // of the turn
	results            []string                  // ids of the calls whose results the turn has so far
	waiting            map[string]bool           // ids of queued steering and follow-up inputs
	brought            map[string]Command        // commands by the id of the message they became
}

func (w *walk) event(e schemas.Event) {
	switch d := e.Data.(type) {
	case *schemas.AgentStart:
		w.begin(e, &w.run, e.RunID, "run")
		w.checkInputs(e, d)
	case *schemas.AgentEnd:
		w.end(e, &w.run, e.RunID, "run")
		w.checkLeft(e, d)
	case *schemas.TurnStart:
		w.begin(e, &w.turn, e.TurnID, "turn")
		w.reply, w.results = nil, nil
	case *schemas.TurnEnd:
		w.end(e, &w.turn, e.TurnID, "turn")
		w.checkResults(e)
	case *schemas.MessageStart:
		w.begin(e, &w.message, d.MessageID, "message")
	case *schemas.MessageEnd:
		w.end(e, &w.message, d.MessageID, "message")
		w.checkMessage(e, d)
	case *schemas.CommandAccepted:
		if d.Queue == schemas.QueueSteering || d.Queue == schemas.QueueFollowUp {
			w.waiting[d.CommandID] = true
		}
	case *schemas.CommandApplied:
		delete(w.waiting, d.CommandID)
	case *schemas.CommandWithdrawn:
		delete(w.waiting, d.CommandID)
	}
}

func (w *walk) begin(e schemas.Event, open *string, id, what string) {
	if *open != "" {
		w.fail(Shape, e.Seq, nil, "%s %s starts while %s %s is open", what, id, what, *open)
	}
	*open = id
}

func (w *walk) end(e schemas.Event, open *string, id, what string) {
	if *open != id || id == "" {
		w.fail(Shape, e.Seq, nil, "%s %q ends while %q is the open one", what, id, *open)
	}
	*open = ""
}

// checkInputs checks that the inputs of a new run were accepted and have no outcome yet.
func (w *walk) checkInputs(e schemas.Event, d *schemas.AgentStart) {
	for _, id := range d.Inputs {
		if o := w.outcomes[id]; o == nil || len(o.ended) > 0 && o.ended[0] < e.Seq {
			w.fail(Doubled, e.Seq, []string{id},
				"run %s starts with an input that was never accepted or has an outcome already", e.RunID)
		}
	}
}

// checkLeft checks that no steering or follow-up input is queued when a run ends normally: the run has to apply all
// inputs that are in the log before its end.
func (w *walk) checkLeft(e schemas.Event, d *schemas.AgentEnd) {
	if !d.TerminationReason.Normal() {
		return
	}
	for id := range w.waiting {
		w.fail(Lost, e.Seq, []string{id}, "the run ended with %s while this input was queued for it", d.TerminationReason)
	}
}

func (w *walk) checkMessage(e schemas.Event, d *schemas.MessageEnd) {
	switch m := d.Message.Message.(type) {
	case *schemas.AssistantMessage:
		if d.Interrupted {
			return
		}
		if w.reply != nil && !d.Failure {
			w.fail(Shape, e.Seq, nil, "turn %s has a second reply", w.turn)
		}
		w.reply = m
	case *schemas.ToolResultMessage:
		w.results = append(w.results, m.ToolCallID)
	case *schemas.UserMessage:
		w.checkUser(e, d.MessageID, m)
	}
}

// checkUser checks that a user message has the text of its command. A message with the result of a sub-agent has the
// name of the sub-agent in front of it.
func (w *walk) checkUser(e schemas.Event, id string, m *schemas.UserMessage) {
	cmd, ok := w.brought[id]
	got := m.Content.JoinText()
	if cmd.Kind == schemas.CommandSubagentResult {
		_, got, _ = strings.Cut(got, ":\n\n")
	}
	if !ok || got != cmd.Text {
		w.fail(Foreign, e.Seq, []string{e.CausationID},
			"user message %s is %q, but the text of its command is %q", id, got, cmd.Text)
	}
	delete(w.brought, id)
}

// checkResults checks that the turn has one result for each call of its reply, in the same order.
func (w *walk) checkResults(e schemas.Event) {
	var want []string
	if w.reply != nil && !w.reply.Failed() {
		for _, call := range w.reply.Content.ToolCalls() {
			want = append(want, call.ID)
		}
	}
	if !slices.Equal(w.results, want) {
		w.fail(Result, e.Seq, want, "the reply of turn %s has these calls, but the results are of %v", e.TurnID, w.results)
	}
}
