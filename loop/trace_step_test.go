package loop_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// step carries out a step if it needs no model, tool, hook or message; otherwise it writes which it needs and returns
// false.
func (p *player) step(step loop.Step) (done bool) {
	p.t.Helper()
	switch step := step.(type) {
	case loop.Emit:
		p.append(step.Data, step.CausationID)
		return true
	case loop.StartRun:
		start := &schemas.AgentStart{Config: &p.config, SkipSteering: step.SkipSteering}
		for _, in := range step.Inputs {
			start.Inputs = append(start.Inputs, in.CommandID)
		}
		p.append(start, "")
		return true
	case loop.CallModel:
		if note := modelNote(step); note != "" {
			p.wait("the model" + note)
			return false
		}
		p.append(&schemas.MessageStart{MessageID: p.s.MessageID(), Role: schemas.RoleAssistant}, "")
		return true // and streams
	case loop.Retry:
		if !p.now.Before(step.NotBefore) {
			p.append(step.Then, "")
			return true
		}
		p.wait("%s, then %s", step.NotBefore.Sub(p.now), step.Then.EventType())
	case loop.RunTools:
		return p.runTools(step)
	case loop.Navigate:
		p.navigate(step)
		return true
	case loop.AbortSubagent:
		fmt.Fprintf(&p.out, "  tell %s to stop\n", step.Session)
		p.append(step.Then, "")
		return true
	case loop.Report:
		fmt.Fprintf(&p.out, "  tell %s: %q\n", step.To, step.Result.Text)
		p.append(step.Then, "")
		return true
	default:
		p.out.WriteString("  rest\n")
	}
	return false
}

// navigate reads the path from the log.
func (p *player) navigate(step loop.Navigate) {
	p.t.Helper()
	s := &loop.State{}
	for _, e := range p.log {
		path, err := s.Enter(e, step.TargetID)
		if err != nil {
			p.t.Fatal(err)
		}
		if path != nil {
			p.append(p.s.Moved(path, loop.Asking(p.config)), step.CommandID)
			return
		}
	}
	p.append(&schemas.CommandRejected{CommandID: step.CommandID, Kind: schemas.CommandNavigate,
		Code: schemas.RejectNotFound, Reason: "no such entry"}, step.CommandID)
}

func modelNote(step loop.CallModel) string {
	switch {
	case step.Aborted:
		return ", which is not asked: the run is aborted"
	case step.Refused != "":
		return fmt.Sprintf(", which is not asked: %s", step.Refused)
	case step.Unready != "":
		return fmt.Sprintf(", which cannot be asked: %s", step.Unready)
	}
	return ""
}

func (p *player) wait(format string, args ...any) {
	fmt.Fprintf(&p.out, "  wait for "+format+"\n", args...)
}

// runTools begins the calls of a step and ends those that are refused. It returns false if other calls wait for their
// results.
func (p *player) runTools(step loop.RunTools) (done bool) {
	p.t.Helper()
	var waits []string
	for _, i := range step.Calls {
		call := func() loop.Call { return p.s.Run.Turn.Calls[i] }
		if call().Key == "" {
			p.append(&schemas.ToolExecutionStart{ToolCallID: call().ToolCall.ID, ToolName: call().ToolCall.Name}, "")
			done = true
		}
		if text := p.answer(call()); text != "" {
			p.append(&schemas.ToolExecutionEnd{
				ToolCallID: call().ToolCall.ID, ToolName: call().ToolCall.Name, Call: call().Key,
				Result: schemas.ErrorResult(text), IsError: true,
			}, "")
			done = true
			continue
		}
		if call().ToolCall.Name == schemas.ToolAgent && p.s.Child(call().Key) == nil {
			p.beginSubagent(call())
			done = true
			continue
		}
		note := call().ToolCall.ID
		if c := call(); c.AwaitsApproval() {
			note += " to be approved"
		}
		waits = append(waits, note)
	}
	if done {
		return true
	}
	what := "wait for "
	if step.Aborted {
		what = "cancel "
	}
	p.out.WriteString("  " + what + strings.Join(waits, ", ") + "\n")
	return false
}

// answer returns the text that a call is answered with instead of being executed.
func (p *player) answer(c loop.Call) string {
	if text := p.s.Refusal(c); text != "" {
		return text
	}
	return c.Denied()
}

// describe abbreviates an event.
func describe(data schemas.EventData) string {
	kind := string(data.EventType())
	switch d := data.(type) {
	case *schemas.AgentStart:
		return kind + " for " + strings.Join(d.Inputs, ", ")
	case *schemas.MessageStart:
		return fmt.Sprintf("%s %s %s", kind, d.MessageID, d.Role)
	case *schemas.MessageEnd:
		note := ""
		if d.Interrupted {
			note = " (interrupted)"
		}
		return fmt.Sprintf("%s %s %s%s", kind, d.MessageID, messageText(d.Message.Message), note)
	case *schemas.ToolExecutionStart:
		return fmt.Sprintf("%s %s %s", kind, d.ToolCallID, d.ToolName)
	case *schemas.ToolExecutionEnd:
		return fmt.Sprintf("%s %s %s %q%s", kind, d.ToolCallID, d.Call, d.Result.Content.JoinText(), failed(d.IsError))
	case *schemas.AgentEnd:
		text := fmt.Sprintf("%s %s after %d turns with %s", kind, d.TerminationReason, d.Turns, strings.Join(d.Messages, " "))
		if d.ErrorMessage != "" {
			text += fmt.Sprintf(": %q", d.ErrorMessage)
		}
		return text
	case *schemas.CommandAccepted:
		short := *d
		short.Data, short.Source = nil, ""
		data = &short
	}
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return kind + " " + string(raw)
}

func failed(is bool) string {
	if is {
		return " failed"
	}
	return ""
}

func messageText(m schemas.Message) string {
	text := string(m.MessageRole())
	switch m := m.(type) {
	case *schemas.UserMessage:
		text += fmt.Sprintf(" %q", m.Content.JoinText())
	case *schemas.AssistantMessage:
		text += fmt.Sprintf(" %s %q", m.StopReason, m.Content.JoinText()+m.ErrorMessage)
		for _, c := range m.Content.ToolCalls() {
			text += fmt.Sprintf(" %s:%s", c.ID, c.Name)
		}
	case *schemas.ToolResultMessage:
		text += fmt.Sprintf(" %s %q%s", m.ToolCallID, m.Content.JoinText(), failed(m.IsError))
	}
	return text
}
