package loop

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/loopbus/loopbus/schemas"
)

// Why a sub-agent's prompt has begun no run.
const (
	textSuperseded = "Its prompt was superseded before its run began"
	textWithdrawn  = "Its prompt was withdrawn before its run began"
	textHandled    = "A service has dealt with its prompt, so that no run began"
)

// maxSubagentText is how much of a sub-agent's last message its parent is told, in bytes; maxSubagentJSON is as much as
// the command that tells may have of it, in bytes of JSON: a runner that cannot store the command cannot go on.
const (
	maxSubagentText = 256 << 10
	maxSubagentJSON = 384 << 10
)

// Parent is what a sub-agent knows of the session that began it, and of the run that it is for.
type Parent struct {
	Link     schemas.SubagentLink      `json:"link"`
	Ended    bool                      `json:"ended,omitempty"` // the run, or it will never begin
	Reported bool                      `json:"reported,omitempty"`
	Reason   schemas.TerminationReason `json:"reason,omitempty"`
	Text     string                    `json:"text,omitempty"` // of the result, until that is reported
}

// Report: have Result stored in the inbox of the session To, and append Then.
type Report struct {
	To     string
	Result schemas.SubagentResult
	Then   *schemas.SubagentReport
}

func (Report) step() {}

// subagentPrompt takes the first command of a child. A session is the child of one call for ever.
func (a acceptance) subagentPrompt(d *schemas.SubagentPrompt) []schemas.EventData {
	switch {
	case a.s.Parent != nil && a.s.Parent.Link == d.Parent:
		return nil
	case a.s.Parent != nil || a.s.Origin != nil || a.s.begun():
		return a.rejected(schemas.RejectState, "the session has begun already")
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

// subagentAbort is an abort of the run that the session is a child for.
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

// endSubagentRun notes what the run comes to that the session is a child for. Its own children are told to stop: their
// results would be for nobody.
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

// neverBegan notes that the prompt of a sub-agent will begin no run.
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

// reports reports whether the parent is still to be told, now that no child of this one is at work.
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

// lastText is the text of the newest reply of a run that says something.
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

// failed says why a run has failed, and how far it came.
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

// cut leaves out what is beyond most bytes, and says so.
func cut(text string, most int) string {
	if text = strings.ToValidUTF8(text, "\uFFFD"); len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + fmt.Sprintf("\n\n[%d bytes more are in the sub-agent's log]", len(text)-most)
}

// fitting leaves out what is beyond most bytes of JSON, and says so.
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

// maxSession is the longest id of a session.
const maxSession = 64

// childSession is the id of the session of a sub-agent. Without the call's nonce nobody can guess it, and it does not
// give the nonce away.
func childSession(parent string, call *Call) string {
	sum := sha256.Sum256([]byte(parent + "/" + string(call.Key) + "/" + call.Nonce))
	suffix := fmt.Sprintf("-%s-%x", call.Key, sum[:6])
	return parent[:min(len(parent), maxSession-len(suffix))] + suffix
}
