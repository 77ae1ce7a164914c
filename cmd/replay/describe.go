package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// describe returns an event on one line, cut at a number of characters; 0 means no limit.
func describe(data schemas.EventData, cut int) string {
	return oneLine(string(data.EventType())+strings.TrimRight(" "+details(data), " "), cut)
}

func details(data schemas.EventData) string {
	switch d := data.(type) {
	case *schemas.CommandAccepted:
		if d.Queue != "" {
			return fmt.Sprintf("%s %s, waits in %s", d.Kind, d.CommandID, d.Queue)
		}
		return fmt.Sprintf("%s %s %s", d.Kind, d.CommandID, d.Data)
	case *schemas.CommandApplied:
		return fmt.Sprintf("%s %s %s", d.Kind, d.CommandID, strings.Join(d.MessageIDs, " "))
	case *schemas.CommandRejected:
		return fmt.Sprintf("%s %s, %s%s", d.Kind, d.CommandID, d.Code, because(d.Reason))
	case *schemas.CommandSuperseded:
		return fmt.Sprintf("%s %s, by %s", d.Kind, d.CommandID, d.By)
	case *schemas.CommandWithdrawn:
		return fmt.Sprintf("%s %s, by %s", d.Kind, d.CommandID, d.By)
	case *schemas.RunResumed:
		return fmt.Sprintf("after %d%s", d.From, because(d.Reason))
	case *schemas.QueueUpdate:
		return fmt.Sprintf("taken [%s], left steering [%s], follow_up [%s], prompts [%s]", strings.Join(d.Taken, " "),
			strings.Join(d.Steering, " "), strings.Join(d.FollowUp, " "), strings.Join(d.Prompts, " "))
	case *schemas.AutoRetryStart:
		return fmt.Sprintf("%d of %d in %s%s", d.Attempt, d.MaxAttempts, millis(d.DelayMs), because(d.ErrorMessage))
	case *schemas.AutoRetryEnd:
		if d.Success {
			return fmt.Sprintf("%d helped", d.Attempt)
		}
		return fmt.Sprintf("after %d%s", d.Attempt, because(d.FinalError))
	case *schemas.ModelFallback:
		return fmt.Sprintf("from %s to %s%s", d.From, d.To, because(d.ErrorMessage))
	case *schemas.BudgetWarning:
		return fmt.Sprintf("%s: %d of %d tokens, $%.4g of $%.4g", d.Scope, d.Tokens, d.MaxTokens, d.Cost, d.MaxCost)
	case *schemas.ErrorEvent:
		if d.Recoverable {
			return fmt.Sprintf("%s%s (the run goes on)", d.Code, because(d.Message))
		}
		return string(d.Code) + because(d.Message)
	}
	return callDetails(data)
}

// because returns a reason as the end of a sentence, if there is one.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// callDetails describes events of turns and tool calls.
func callDetails(data schemas.EventData) string {
	switch d := data.(type) {
	case *schemas.TurnStart:
		return fmt.Sprintf("number %d", d.TurnIndex)
	case *schemas.TurnEnd:
		return strings.Join(append([]string{d.MessageID}, d.ToolResults...), " ")
	case *schemas.ToolExecutionStart:
		return d.ToolName + " " + d.ToolCallID
	case *schemas.ToolExecutionEnd:
		how := "ok"
		if d.IsError {
			how = "error"
		}
		return fmt.Sprintf("%s %s (%s): %s after %s", d.ToolName, d.ToolCallID, d.Call, how, millis(d.DurationMs))
	case *schemas.ApprovalRequested:
		by := ""
		if d.By != "" {
			by = ", asked by " + d.By
		}
		return fmt.Sprintf("%s %s %s%s%s", d.ToolName, d.ToolCallID, d.Args, by, because(d.Reason))
	case *schemas.ApprovalResolved:
		how := "denied"
		if d.Approved {
			how = "approved"
		}
		if d.Args != nil {
			how += fmt.Sprintf(" with %s", d.Args)
		}
		if d.By != "" {
			how += " by " + d.By
		}
		return fmt.Sprintf("%s %s%s", d.ToolCallID, how, because(d.Reason))
	case *schemas.HookDecision:
		return decisionDetails(d)
	}
	return familyDetails(data)
}

// decisionDetails describes what services decided at a hook, and all that they changed.
func decisionDetails(d *schemas.HookDecision) string {
	changes := changesOf(d)
	how := "lets pass"
	switch {
	case d.Block:
		how = "blocks"
	case d.Ask:
		how = "asks for approval of"
	case d.Handled:
		how = "handles"
	case len(changes) > 0:
		how = "changes"
	}
	words := []string{string(d.Hook), how}
	if about := cmp.Or(d.ToolCallID, d.CommandID, d.MessageID); about != "" {
		words = append(words, about)
	}
	text := strings.Join(append([]string{strings.Join(words, " ")}, changes...), ", ")
	if d.By != "" {
		text += ", decided by " + d.By
	}
	text += because(d.Reason)
	for _, f := range d.Failures {
		text += fmt.Sprintf("; no answer of %s%s", f.Service, because(f.Error))
	}
	return text
}

// changesOf lists what a decision puts in place of something else. Values that a later event has are only named.
func changesOf(d *schemas.HookDecision) (changes []string) {
	add := func(is bool, format string, values ...any) {
		if is {
			changes = append(changes, fmt.Sprintf(format, values...))
		}
	}
	add(d.Handled, "no run gets it")
	add(d.Args != nil, "arguments %s", d.Args)
	unrecorded := ""
	if d.Hook == schemas.HookContext || d.Hook == schemas.HookBeforeProviderRequest {
		unrecorded = " (not in the log)"
	}
	add(len(d.Changed) > 0, "new %s%s", strings.Join(d.Changed, ", "), unrecorded)
	add(len(d.Messages) > 0, "messages %s", jsonOf(d.Messages))
	for _, s := range d.Sources {
		add(true, "from %s", s.Path)
	}
	if d.SystemPrompt != nil {
		add(true, "system prompt %q", *d.SystemPrompt)
	}
	add(d.Compaction != nil, "compaction %s", jsonOf(d.Compaction))
	add(d.Summary != "", "summary %q", d.Summary)
	if d.CustomInstructions != nil {
		add(true, "instructions %q", *d.CustomInstructions)
	}
	if d.ReplaceInstructions != nil {
		add(true, "instructions replace the usual ones: %t", *d.ReplaceInstructions)
	}
	if d.Label != nil {
		add(true, "label %q", *d.Label)
	}
	return changes
}

// jsonOf returns a part of an event as JSON.
func jsonOf(v any) string {
	raw, err := schemas.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// familyDetails describes events between a session and its sub-agents.
func familyDetails(data schemas.EventData) string {
	outcome := func(isError bool, reason schemas.TerminationReason) string {
		if !isError {
			return "ok"
		}
		return "failed " + string(reason)
	}
	switch d := data.(type) {
	case *schemas.SubagentStart:
		return fmt.Sprintf("%s %s begins session %s at depth %d %s", d.ToolCallID, d.Call, d.Session, d.Depth, d.Name)
	case *schemas.SubagentAborted:
		return fmt.Sprintf("%s stops session %s", d.Call, d.Session)
	case *schemas.SubagentEnd:
		return fmt.Sprintf("%s session %s: %s, %d tokens, $%.4g", d.Call, d.Session, outcome(d.IsError, d.Reason),
			d.Usage.TotalTokens, d.Usage.Cost.Total)
	case *schemas.SubagentReport:
		return fmt.Sprintf("to %s of session %s: %s %s", d.Call, d.Session, outcome(d.IsError, d.Reason), d.Undelivered)
	}
	return ""
}
