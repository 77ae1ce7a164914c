package main

import (
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// describe is an event on one line.
func describe(data schemas.EventData) string {
	return oneLine(string(data.EventType())+strings.TrimRight(" "+details(data), " "), maxLine)
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
		return fmt.Sprintf("%s %s, %s: %s", d.Kind, d.CommandID, d.Code, d.Reason)
	case *schemas.CommandSuperseded:
		return fmt.Sprintf("%s %s, by %s", d.Kind, d.CommandID, d.By)
	case *schemas.CommandWithdrawn:
		return fmt.Sprintf("%s %s, by %s", d.Kind, d.CommandID, d.By)
	case *schemas.RunResumed:
		return fmt.Sprintf("after %d: %s", d.From, d.Reason)
	case *schemas.QueueUpdate:
		return fmt.Sprintf("taken [%s], left steering [%s], follow_up [%s], prompts [%s]", strings.Join(d.Taken, " "),
			strings.Join(d.Steering, " "), strings.Join(d.FollowUp, " "), strings.Join(d.Prompts, " "))
	case *schemas.ErrorEvent:
		if d.Recoverable {
			return fmt.Sprintf("%s: %s (the run goes on)", d.Code, d.Message)
		}
		return fmt.Sprintf("%s: %s", d.Code, d.Message)
	}
	return callDetails(data)
}

// callDetails are those of the events of turns and tool calls.
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
	case *schemas.HookDecision:
		how := "lets pass"
		if d.Block {
			how = "blocks"
		}
		return fmt.Sprintf("%s %s %s: %s", d.Hook, how, d.ToolCallID, d.Reason)
	}
	return ""
}
