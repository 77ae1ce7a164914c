package history

import (
	"slices"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// checkShape walks through the log and wants runs, turns and messages to begin and end in pairs, every user message to
// be the text of the one command that brought it, and no input that was queued as steering or follow-up to be left
// behind by a run that ended of its own accord.
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
			s.fail(Stuck, end, nil, "%s %s has no end", open.what, open.id)
		}
	}
}

// walk is what is open at a place of the log.
type walk struct {
	*sessionCheck
	run, turn, message string
	reply              *schemas.AssistantMessage // of the turn
	results            []string                  // ids of the calls answered in the turn
	waiting            map[string]bool           // steering and follow-ups
	brought            map[string]Command        // by message
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
		w.fail(Shape, e.Seq, nil, "%s %s begins while %s %s is open", what, id, what, *open)
	}
	*open = id
}

func (w *walk) end(e schemas.Event, open *string, id, what string) {
	if *open != id || id == "" {
		w.fail(Shape, e.Seq, nil, "%s %q ends, and open is %q", what, id, *open)
	}
	*open = ""
}

// checkInputs wants what a run begins with to have no outcome yet.
func (w *walk) checkInputs(e schemas.Event, d *schemas.AgentStart) {
	for _, id := range d.Inputs {
		if o := w.outcomes[id]; o == nil || len(o.ended) > 0 && o.ended[0] < e.Seq {
			w.fail(Doubled, e.Seq, []string{id}, "run %s begins with what has had its outcome, or was never accepted", e.RunID)
		}
	}
}

// checkLeft wants nothing to wait that should have been taken in by the run: the last poll and the end have one order.
func (w *walk) checkLeft(e schemas.Event, d *schemas.AgentEnd) {
	if !d.TerminationReason.Normal() {
		return
	}
	for id := range w.waiting {
		w.fail(Lost, e.Seq, []string{id}, "the run ended with %s although this waited for it", d.TerminationReason)
	}
}

func (w *walk) checkMessage(e schemas.Event, d *schemas.MessageEnd) {
	switch m := d.Message.Message.(type) {
	case *schemas.AssistantMessage:
		if d.Interrupted {
			return
		}
		if w.reply != nil && !d.Failure {
			w.fail(Shape, e.Seq, nil, "a second reply in turn %s", w.turn)
		}
		w.reply = m
	case *schemas.ToolResultMessage:
		w.results = append(w.results, m.ToolCallID)
	case *schemas.UserMessage:
		w.checkUser(e, d.MessageID, m)
	}
}

// checkUser wants a user message to be what its command said. That with a sub-agent's result says whose it is first.
func (w *walk) checkUser(e schemas.Event, id string, m *schemas.UserMessage) {
	cmd, ok := w.brought[id]
	got := m.Content.JoinText()
	if cmd.Kind == schemas.CommandSubagentResult {
		_, got, _ = strings.Cut(got, ":\n\n")
	}
	if !ok || got != cmd.Text {
		w.fail(Foreign, e.Seq, []string{e.CausationID}, "user message %s is %q, and its command said %q", id, got, cmd.Text)
	}
	delete(w.brought, id)
}

// checkResults wants one result for each call of the turn's reply, in their order.
func (w *walk) checkResults(e schemas.Event) {
	var want []string
	if w.reply != nil && !w.reply.Failed() {
		for _, call := range w.reply.Content.ToolCalls() {
			want = append(want, call.ID)
		}
	}
	if !slices.Equal(w.results, want) {
		w.fail(Result, e.Seq, want, "the reply of turn %s calls these, and the results are of %v", e.TurnID, w.results)
	}
}
