package compaction

import (
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// RequestKind is the kind of summary that a request is for.
type RequestKind string

// The kinds of requests. RequestCustom is for a branch with the user's own instructions in place of ours.
const (
	RequestInitial    RequestKind = "initial"
	RequestUpdate     RequestKind = "update"
	RequestTurnPrefix RequestKind = "turn-prefix"
	RequestBranch     RequestKind = "branch"
	RequestCustom     RequestKind = "custom"
)

// A Request is one request to a model: a system prompt, one user message, no tools.
type Request struct {
	Kind         RequestKind
	SystemPrompt string
	Prompt       string
	// MaxTokens is the limit of the reply, in tokens.
	MaxTokens int64
	// ThinkingLevel is "" if the model is not to think.
	ThinkingLevel schemas.ThinkingLevel
}

// Message returns the request's user message. timestamp is in Unix milliseconds.
func (r Request) Message(timestamp int64) *schemas.UserMessage {
	return &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: r.Prompt}}, Timestamp: timestamp}
}

// Asking holds the parameters of the requests for a summary.
type Asking struct {
	// Focus is what the user wants the summary to concentrate on, "" for nothing.
	Focus string
	// Reasons reports whether the model can think; ThinkingLevel is the session's.
	Reasons       bool
	ThinkingLevel schemas.ThinkingLevel
}

func (a Asking) level() schemas.ThinkingLevel {
	if !a.Reasons || a.ThinkingLevel == schemas.ThinkingOff {
		return ""
	}
	return a.ThinkingLevel
}

// Requests returns the requests for the summary, in the order in which [Preparation.Summarize] takes the replies: one
// for the history and, if a turn is split, one for its beginning. There are one or two. Only the history's has the
// user's focus.
func (p *Preparation) Requests(a Asking) (list []Request) {
	if p.asksHistory() {
		list = append(list, p.historyRequest(a))
	}
	if p.asksPrefix() {
		list = append(list, Request{
			Kind: RequestTurnPrefix, SystemPrompt: systemPrompt,
			Prompt:    conversation(p.TurnPrefix) + prefixInstructions,
			MaxTokens: p.Settings.ReserveTokens / 2, ThinkingLevel: a.level(),
		})
	}
	return list
}

func (p *Preparation) asksPrefix() bool  { return p.Split && len(p.TurnPrefix) > 0 }
func (p *Preparation) asksHistory() bool { return len(p.History) > 0 || !p.asksPrefix() }

func (p *Preparation) historyRequest(a Asking) Request {
	r := Request{
		Kind: RequestInitial, SystemPrompt: systemPrompt, Prompt: conversation(p.History),
		MaxTokens: p.Settings.ReserveTokens * 4 / 5, ThinkingLevel: a.level(),
	}
	if p.PreviousSummary == "" {
		r.Prompt += withFocus(initialInstructions, a.Focus)
		return r
	}
	r.Kind = RequestUpdate
	r.Prompt += "<previous-summary>\n" + p.PreviousSummary + "\n</previous-summary>\n\n" +
		withFocus(updateInstructions, a.Focus)
	return r
}

func conversation(messages []schemas.Message) string {
	var b strings.Builder
	b.WriteString("<conversation>\n")
	b.WriteString(Serialize(messages))
	b.WriteString("\n</conversation>\n\n")
	return b.String()
}

func withFocus(instructions, focus string) string {
	if focus == "" {
		return instructions
	}
	return instructions + "\n\nAdditional focus: " + focus
}
