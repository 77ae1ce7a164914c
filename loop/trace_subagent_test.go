package loop_test

import (
	"encoding/json"
	"strings"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// toolCall returns a call of a tool; a word after + behind the name of the tool agent is an argument that is true.
func toolCall(id, tool string) schemas.ToolCall {
	name, flags, _ := strings.Cut(tool, "+")
	args := json.RawMessage(`{}`)
	if name == schemas.ToolAgent {
		args, _ = json.Marshal(schemas.SubagentCall{
			Prompt: "go", Background: strings.Contains(flags, "background"), Join: strings.Contains(flags, "join"),
		})
	}
	return schemas.ToolCall{ID: id, Name: name, Arguments: args}
}

// beginSubagent does what a driver does for a call of the tool agent, except for the prompt.
func (p *player) beginSubagent(call loop.Call) {
	p.t.Helper()
	end := &schemas.ToolExecutionEnd{ToolCallID: call.ToolCall.ID, ToolName: call.ToolCall.Name, Call: call.Key}
	var args schemas.SubagentCall
	p.decode(string(call.ToolCall.Arguments), &args)
	start, refusal := p.s.Subagent(&call, args)
	switch {
	case refusal != "":
		end.Result, end.IsError = schemas.ErrorResult(refusal), true
	case start.Background:
		p.append(start, "")
		end.Result = schemas.TextResult("begun")
	default:
		p.append(start, "")
		return
	}
	p.append(end, "")
}

// child delivers a sub-agent's result as a driver does: the model's id of its call, then error=true or tokens=N, and a
// text.
func (p *player) child(line string) {
	p.t.Helper()
	id, text, _ := strings.Cut(line, " ")
	for _, c := range p.s.Children {
		if c.Start.ToolCallID != id {
			continue
		}
		r := &schemas.SubagentResult{
			Call: c.Start.Call, Nonce: c.Nonce, Session: c.Start.Session, Reason: schemas.EndNoToolCalls,
		}
		if text, r.IsError = strings.CutPrefix(text, "error=true "); r.IsError {
			r.Reason = schemas.EndError
		}
		if rest, ok := strings.CutPrefix(text, "tokens="); ok {
			n, rest, _ := strings.Cut(rest, " ")
			p.decode(n, &r.Usage.TotalTokens)
			text = rest
		}
		r.Text = text
		if call := p.s.Call(r.Call); call != nil && call.End == nil && !c.Start.Background {
			p.append(&schemas.ToolExecutionEnd{ToolCallID: id, ToolName: schemas.ToolAgent, Call: r.Call, IsError: r.IsError,
				Result: schemas.TextResult(r.Text)}, "")
			p.append(loop.SubagentEnded(r), "")
			return
		}
		raw, err := json.Marshal(r)
		if err != nil {
			p.t.Fatal(err)
		}
		p.command("subagent_result result/"+id+" "+string(raw), -1)
		return
	}
	p.out.WriteString("  nothing\n")
}
