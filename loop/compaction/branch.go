package compaction

import (
	"errors"
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

const (
	branchReserve   = 16384
	unknownWindow   = 128000
	branchMaxTokens = 2048
)

// ErrNoContent means that the branch left behind has no message, so that there is nothing to summarize.
//
//lint:ignore ST1005 the text is pi's
var ErrNoContent = errors.New("No content to summarize")

// Left returns the ids of the entries that a move from one leaf to another leaves behind, oldest first, and the deepest
// common ancestor of the leaves, "" if there is none. parent returns an entry's parent, "" for a root, and whether the
// entry exists. A cycle of parents ends the walk.
func Left(parent func(id string) (string, bool), from, to string) (ids []string, ancestor string) {
	target := map[string]bool{}
	climb(parent, to, func(id string) bool { target[id] = true; return true })
	ids = []string{}
	climb(parent, from, func(id string) bool {
		if target[id] {
			ancestor = id
			return false
		}
		ids = append(ids, id)
		return true
	})
	slices.Reverse(ids)
	return ids, ancestor
}

// climb visits an entry and its ancestors until visit returns false.
func climb(parent func(id string) (string, bool), id string, visit func(id string) bool) {
	seen := map[string]bool{}
	for id != "" && !seen[id] {
		next, ok := parent(id)
		if !ok || !visit(id) {
			return
		}
		seen[id] = true
		id = next
	}
}

// BranchBudget returns how many tokens of a branch fit into a request to a model with this window. Window 0 stands for
// an unknown window, reserve 0 for the default. A result of 0 or less is no budget.
func BranchBudget(window, reserve int64) int64 {
	if window == 0 {
		window = unknownWindow
	}
	if reserve == 0 {
		reserve = branchReserve
	}
	return window - reserve
}

// A BranchPreparation is what the summary of a branch is made from.
type BranchPreparation struct {
	// Messages are the newest messages of the branch, without tool results.
	Messages []schemas.Message
	// Files are the files that the calls in Messages read and changed, and those of all branch summaries among the
	// entries.
	Files Files
	// Tokens is the estimated size of Messages.
	Tokens int64
}

// PrepareBranch chooses, from the newest back, the entries that fit into a budget of tokens; 0 or less is no limit. A
// summary that does not fit is included all the same while less than 0.9 of the budget is used, because it stands for
// many messages.
func PrepareBranch(entries []Entry, budget int64) *BranchPreparation {
	p := &BranchPreparation{Files: NewFiles()}
	for _, e := range entries {
		if e.Kind == KindBranchSummary {
			p.Files.summary(e)
		}
	}
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		m := e.shown()
		if m == nil || e.role() == schemas.RoleToolResult {
			continue
		}
		p.Files.calls(m)
		tokens := EstimateTokens(m)
		full := budget > 0 && p.Tokens+tokens > budget
		if full && (e.Kind == KindMessage || e.Kind == KindCustomMessage || p.Tokens*10 >= budget*9) {
			break
		}
		p.Messages = append(p.Messages, m)
		p.Tokens += tokens
		if full {
			break
		}
	}
	slices.Reverse(p.Messages)
	return p
}

// Request returns the request for the summary. Instructions are the user's own, which are added to ours or replace
// them. The error is [ErrNoContent].
func (p *BranchPreparation) Request(instructions string, replace bool) (Request, error) {
	if len(p.Messages) == 0 {
		return Request{}, ErrNoContent
	}
	r := Request{
		Kind: RequestBranch, SystemPrompt: systemPrompt, Prompt: conversation(p.Messages), MaxTokens: branchMaxTokens,
	}
	if replace && instructions != "" {
		r.Kind = RequestCustom
		r.Prompt += instructions
		return r, nil
	}
	r.Prompt += withFocus(branchInstructions, instructions)
	return r, nil
}

// Summarize makes the summary from the model's reply. The error wraps [ErrAborted], [ErrEmpty] or [ErrCutOff], or has
// the text of the failure in the reply.
func (p *BranchPreparation) Summarize(reply *schemas.AssistantMessage) (string, FileLists, error) {
	text, err := summaryText(reply, "Summarization failed")
	if err != nil {
		return "", FileLists{}, err
	}
	files := p.Files.Lists()
	return branchPreamble + text + files.Text(), files, nil
}
