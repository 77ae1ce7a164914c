package loop

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/loopbus/loopbus/schemas"
)

// Why a sub-agent's prompt has started no run.
const (
	textSuperseded = "Its prompt was superseded before its run began"
	textWithdrawn  = "Its prompt was withdrawn before its run began"
	textHandled    = "A service has dealt with its prompt, so that no run began"
)

// maxSubagentText bounds, in bytes, what a parent gets of a sub-agent's last message. maxSubagentJSON bounds it in
// bytes of JSON, to what the command for the parent can carry: a runner that cannot store the command cannot continue.
const (
	maxSubagentText = 256 << 10
	maxSubagentJSON = 384 << 10
)

// Parent is what a sub-agent's session knows of the session that began it, and of the run that it makes for it.
type Parent struct {
	Link     schemas.SubagentLink      `json:"link"`
	Ended    bool                      `json:"ended,omitempty"` // the run has ended or will never start
	Reported bool                      `json:"reported,omitempty"`
	Reason   schemas.TerminationReason `json:"reason,omitempty"`
	Text     string                    `json:"text,omitempty"` // of the result, until that is reported
}

// Report tells the driver to have Result stored in the inbox of the session To, and to append Then.
type Report struct {
	To     string
	Result schemas.SubagentResult
	Then   *schemas.SubagentReport
}

func (Report) step() {}

// subagentPrompt returns the events of the first command of a child. A session is the child of one call and never of
// another.
func (a acceptance) subagentPrompt(d *schemas.SubagentPrompt) []schemas.EventData {
	switch {
	case a.s.Parent != nil && a.s.Parent.Link == d.Parent:
		return nil
	case a.s.Parent != nil || a.s.Origin != nil || a.s.begun():
		return a.rejected(schemas.RejectState, "the session has begun already")
	case a.s.Known.Has(d.Parent.AbortID()): // the parent has its answer
		return a.rejected(schemas.RejectAborted, "the sub-agent was aborted before it began")
	}
	return a.accepted(schemas.QueuePrompts)
}

func (s *State) becomeSubagent(d *schemas.SubagentPrompt) {
	s.Parent = &Parent{Link: d.Parent}
	s.Name = d.Name
	t := &s.Settings
	t.Profile, t.Model, t.ThinkingLevel, t.Workspace = d.Profile, own(d.Model), d.ThinkingLevel, own(d.Workspace)
	t.ToolsSet, t.Tools = d.Tools != nil, d.Tools
	t.MaxTokens, t.MaxCost = d.MaxTokens, d.MaxCost
}

// subagentAbort returns the events of an abort of the run that the session makes for its parent.
func (a acceptance) subagentAbort(d *schemas.SubagentAbort) []schemas.EventData {
	switch p := a.s.Parent; {
	case p == nil || p.Link != d.Parent:
		return a.rejected(schemas.RejectNotFound, "the session is no sub-agent of that call")
	case p.Ended:
		return a.rejected(schemas.RejectNoRun, "the run has ended")
	}
	return a.applied(a.withdraw(slices.DeleteFunc(slices.Clone(a.s.Prompts), func(in Input) bool {
		return in.CommandID != d.Parent.PromptID()
	}))...)
}

func (s *State) runsForParent(r *Run) bool {
	return r != nil && s.Parent != nil && r.Command == s.Parent.Link.PromptID()
}

// endSubagentRun records the outcome of the run that the session makes for its parent. Its own children are to be
// aborted, because nobody waits for their results.
func (s *State) endSubagentRun(r *Run, d *schemas.AgentEnd) {
	if !s.runsForParent(r) || s.Parent.Ended {
		return
	}
	text := s.lastText(r.New)
	if !d.TerminationReason.Normal() {
		text = failed(d, text)
	}
	s.settle(d.TerminationReason, text)
	s.abortChildren()
}

// neverBegan records that the prompt of a sub-agent will start no run.
func (s *State) neverBegan(command, why string) {
	if s.Parent != nil && !s.Parent.Ended && command == s.Parent.Link.PromptID() {
		s.settle("", why)
	}
}

func (s *State) settle(reason schemas.TerminationReason, text string) {
	p := *s.Parent
	p.Ended, p.Reason, p.Text = true, reason, cut(text, maxSubagentText)
	s.Parent = &p
}

// reports reports whether the result has to be sent to the parent now, when no child of this session is at work.
func (s *State) reports() bool {
	return s.Parent != nil && s.Parent.Ended && !s.Parent.Reported && len(s.Children) == 0
}

func (s *State) report() Report {
	p := s.Parent
	r := Report{To: p.Link.Session, Result: schemas.SubagentResult{
		Call: p.Link.Call, Nonce: p.Link.Nonce, Session: s.Session, Text: fitting(p.Text, maxSubagentJSON),
		IsError: !p.Reason.Normal(), Reason: p.Reason, Usage: s.Usage,
	}}
	r.Then = &schemas.SubagentReport{
		Session: r.To, Call: r.Result.Call, IsError: r.Result.IsError, Reason: r.Result.Reason,
	}
	return r
}

// lastText returns the text of the newest reply of a run that has any.
func (s *State) lastText(ids []string) string {
	for _, id := range slices.Backward(ids) {
		if reply, ok := s.Message(id).(*schemas.AssistantMessage); ok && !reply.Failed() {
			if text := reply.Content.JoinText(); text != "" {
				return text
			}
		}
	}
	return ""
}

// failed returns why a run has failed, and how far it came.
func failed(end *schemas.AgentEnd, last string) string {
	text := fmt.Sprintf("The sub-agent's run ended: %s", end.TerminationReason)
	if end.ErrorMessage != "" {
		text += ": " + end.ErrorMessage
	}
	if last != "" {
		text += "\n\nIts last message:\n\n" + last
	}
	return text
}

// cut shortens a text to at most most bytes, with a note that it did.
func cut(text string, most int) string {
	if text = strings.ToValidUTF8(text, "\uFFFD"); len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + fmt.Sprintf("\n\n[%d bytes more are in the sub-agent's log]", len(text)-most)
}

// fitting shortens a text to at most most bytes of JSON, with a note that it did.
func fitting(text string, most int) string {
	for i, r := range text {
		switch {
		case r == '"', r == '\\', r == '\n', r == '\r', r == '\t':
			most -= 2
		case r < ' ', r == '\u2028', r == '\u2029':
			most -= len(`\u0000`)
		default:
			most -= utf8.RuneLen(r)
		}
		if most < 0 {
			return cut(text, i)
		}
	}
	return text
}
