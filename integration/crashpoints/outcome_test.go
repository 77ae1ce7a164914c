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

// outcome is the result of a trial, without everything that a takeover may change: sequences, and ids that contain
// them;
// times; run_resumed and interrupted replies, which are not part of the transcript; and the length of an aborted reply.
type outcome struct {
	Transcript []string
	Commands   map[string]string // outcomes by command id
	Ends       []string
	Executed   map[string]int     // executions by the model's id of the call
	Asked      map[place]int      // model calls by the reply they asked for
	Children   map[string]outcome // by the model's id of the call; without executions and model calls

	log []schemas.Event // of the session
}

// place identifies the reply that a model call is for: the number of replies before it and the number of the attempt.
// Of is the prompt of the sub-agent, and "" for the trial's own session.
type place struct {
	Replies, Attempt int
	Of               string
}

// outcomeOf returns the outcome in a log.
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

// note adds an event about commands or runs.
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
			return // it may arrive before or after the parent has answered its call: see answeredOnce
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
			code = schemas.RejectConsumed // it arrived after the turn of the answered call
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

// line formats a message for comparison.
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

// fold panics if the log cannot be folded: the caller has verified it.
func fold(log []schemas.Event) *loop.State {
	state := new(loop.State)
	for _, e := range log {
		if err := state.Apply(e); err != nil {
			panic(err)
		}
	}
	return state
}

// describe formats the log, and those of the sub-agents, for failure messages.
func (tr *trial) describe(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	logs := tr.logs(t)
	for _, session := range slices.Sorted(maps.Keys(logs)) {
		describeLog(&b, session, logs[session])
	}
	tr.describeQueues(&b)
	fmt.Fprintf(&b, "\n%s\nthey said:\n%s", tr.stage.describeProcesses(), &tr.stage.log)
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

// describeQueues adds the messages that are left in the streams, and the state of their consumers.
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
