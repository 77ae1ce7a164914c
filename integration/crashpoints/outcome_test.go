package crashpoints_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// outcome is what a trial comes to, without what may differ when a run is taken over: sequences, and the ids made of
// them; times; run_resumed and replies that were broken off, which are no part of the transcript; and of an aborted
// reply how much of it had been said.
type outcome struct {
	Transcript []string
	Commands   map[string]string // what became of each, by its id
	Ends       []string
	Executed   map[string]int     // by the model's id of the call
	Asked      map[place]int      // model calls
	Children   map[string]outcome // by the model's id of the call; without executions and model calls

	log []schemas.Event // from which it was made
}

// place is which reply a model is asked for: that after so many, at which attempt; and of whom, if not of the trial's
// session: the prompt of the sub-agent.
type place struct {
	Replies, Attempt int
	Of               string
}

// outcomeOf is what a log comes to.
func outcomeOf(log []schemas.Event) outcome {
	o := outcome{Commands: map[string]string{}, log: log}
	for _, e := range fold(log).Messages {
		o.Transcript = append(o.Transcript, line(e.Message.Message))
	}
	for _, e := range log {
		o.note(e)
	}
	return o
}

func (tr *trial) outcome(logs map[string][]schemas.Event) outcome {
	o := outcomeOf(logs[tr.session])
	o.Children = map[string]outcome{}
	for call, session := range children(o.log) {
		o.Children[call] = outcomeOf(logs[session])
	}
	o.Executed = tr.executions()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	o.Asked = maps.Clone(tr.asked)
	return o
}

// note adds what an event says of commands and runs.
func (o *outcome) note(e schemas.Event) {
	become := func(id, what string) {
		if schemas.IsSubagentID(id) { // it has a nonce
			id = "of a sub-agent"
		}
		o.Commands[id] = strings.TrimPrefix(o.Commands[id]+", "+what, ", ")
	}
	switch d := e.Data.(type) {
	case *schemas.CommandAccepted:
		if d.Kind == schemas.CommandSubagentResult && d.Queue == "" {
			return // it comes before its call has been answered for it, or after that: see answeredOnce
		}
		become(d.CommandID, fmt.Sprintf("%s accepted %s", d.Kind, d.Queue))
	case *schemas.CommandApplied:
		if d.Kind == schemas.CommandSubagentResult && len(d.MessageIDs) == 0 {
			return
		}
		become(d.CommandID, fmt.Sprintf("applied as %d messages", len(d.MessageIDs)))
	case *schemas.CommandRejected:
		code := d.Code
		if d.Kind == schemas.CommandDeny && code == schemas.RejectNotFound {
			code = schemas.RejectConsumed // it came after the turn of the call that was answered
		}
		become(d.CommandID, "rejected as "+string(code))
	case *schemas.CommandSuperseded:
		become(d.CommandID, "superseded by "+d.By)
	case *schemas.CommandWithdrawn:
		become(d.CommandID, "withdrawn by "+d.By)
	case *schemas.AgentEnd:
		o.Ends = append(o.Ends, fmt.Sprintf("%s after %d turns with %d messages", d.TerminationReason, d.Turns,
			len(d.Messages)))
	}
}

// line is a message as people compare it.
func line(m schemas.Message) string {
	switch m := m.(type) {
	case *schemas.UserMessage:
		return "user: " + nameless(m.Content.JoinText())
	case *schemas.AssistantMessage:
		if m.StopReason == schemas.StopAborted {
			return "assistant, aborted"
		}
		return fmt.Sprintf("assistant, %s: %s %s%s", m.StopReason, m.Content.JoinText(), m.ErrorMessage, callsOf(m))
	case *schemas.ToolResultMessage:
		return fmt.Sprintf("result of %s %s, error %t: %s", m.ToolName, m.ToolCallID, m.IsError,
			nameless(m.Content.JoinText()))
	}
	return string(m.MessageRole())
}

func callsOf(m *schemas.AssistantMessage) (list string) {
	for _, call := range m.Content.ToolCalls() {
		list += fmt.Sprintf("[%s %s %s]", call.Name, call.ID, call.Arguments)
	}
	return list
}

// fold panics where a log does not fold: it has been verified before.
func fold(log []schemas.Event) *loop.State {
	state := new(loop.State)
	for _, e := range log {
		if err := state.Apply(e); err != nil {
			panic(err)
		}
	}
	return state
}

// describe is the log for people, and those of the sub-agents.
func (tr *trial) describe(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	logs := tr.logs(t)
	for _, session := range slices.Sorted(maps.Keys(logs)) {
		describeLog(&b, session, logs[session])
	}
	tr.describeQueues(&b)
	fmt.Fprintf(&b, "\nthe runners said:\n%s", &tr.stage.log)
	return b.String()
}

func describeLog(b *strings.Builder, session string, log []schemas.Event) {
	fmt.Fprintf(b, "\n%s:", session)
	for _, e := range log {
		fmt.Fprintf(b, "\n%4d %-22s %s", e.Seq, e.Source[strings.LastIndexByte(e.Source, '/')+1:], e.Type())
		switch d := e.Data.(type) {
		case *schemas.CommandAccepted:
			fmt.Fprintf(b, " %s", d.CommandID)
		case *schemas.CommandApplied:
			fmt.Fprintf(b, " %s", d.CommandID)
		case *schemas.MessageEnd:
			fmt.Fprintf(b, " %s", line(d.Message.Message))
		case *schemas.RunResumed:
			fmt.Fprintf(b, " from %d %s", d.From, d.Reason)
		}
	}
}

// describeQueues adds what is left in the queues, and who has received how much of it.
func (tr *trial) describeQueues(b *strings.Builder) {
	for _, name := range []string{schemas.StreamCommands, schemas.StreamTools} {
		stream, err := tr.conn.JetStream().Stream(tr.stage.ctx, name)
		if err != nil {
			fmt.Fprintf(b, "\n%s: %v", name, err)
			continue
		}
		fmt.Fprintf(b, "\n%s: %d messages", name, stream.CachedInfo().State.Msgs)
		list := stream.ListConsumers(tr.stage.ctx)
		for c := range list.Info() {
			fmt.Fprintf(b, "; %s: %d pending, %d unacknowledged, %d pulls", c.Name, c.NumPending, c.NumAckPending, c.NumWaiting)
		}
	}
}
