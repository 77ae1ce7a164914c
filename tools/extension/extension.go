// Package extension has the tools with which a model acts on its own session: session_branch and agent_interrupt
// (behaviour A15.10). A runner serves them; what they do they do as any client would, by sending commands.
package extension

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// Send stores a command in a session's inbox. Sent again with the same id it takes effect once.
type Send func(ctx context.Context, session, id string, data schemas.CommandData) error

// Texts of results.
const (
	textInterrupt  = "Interrupt request sent"
	reasonOfAgent  = "agent-requested"
	maxSessionName = 64
)

// Tools returns both tools. An error of send is an error result.
func Tools(send Send) ([]tools.Tool, error) {
	branch, err := tools.Typed(schemas.ToolDefinition{
		Name: schemas.ToolSessionBranch, Label: "Branch session", Effect: schemas.EffectIdempotent,
		Description: "Copy this session, as far as the latest complete message, into a new session that goes its own way. " +
			"This session goes on unchanged. Returns the new session's id.",
	}, func(ctx context.Context, call tools.Call, p branchParams) (schemas.ToolResult, error) {
		return branchSession(ctx, send, call, p)
	})
	if err != nil {
		return nil, err
	}
	interrupt, err := tools.Typed(schemas.ToolDefinition{
		Name: schemas.ToolAgentInterrupt, Label: "Interrupt", Effect: schemas.EffectIdempotent,
		Description: "End the current run at once, without another model call. What is queued starts afterwards.",
	}, func(ctx context.Context, call tools.Call, _ struct{}) (schemas.ToolResult, error) {
		err := send(ctx, call.Session, "interrupt/"+string(call.Key), &schemas.Abort{Reason: reasonOfAgent})
		return schemas.TextResult(textInterrupt), err
	})
	return []tools.Tool{branch, interrupt}, err
}

type branchParams struct {
	Session string `json:"session,omitempty" jsonschema:"pattern=^[A-Za-z0-9_-]*$,maxLength=64,description=Id of the copy"`
}

// branchSession asks for the copy. It is made a moment later; a command to the new session that is sent after this one
// finds it made.
func branchSession(ctx context.Context, send Send, call tools.Call, p branchParams) (schemas.ToolResult, error) {
	id := p.Session
	if id == "" {
		suffix := "-" + string(call.Key)
		id = call.Session[:min(len(call.Session), maxSessionName-len(suffix))] + suffix
	}
	if err := schemas.CheckSession(id); err != nil {
		return schemas.ToolResult{}, err
	}
	seq, err := strconv.ParseUint(strings.TrimPrefix(string(call.Key), "c"), 10, 64)
	if err != nil {
		return schemas.ToolResult{}, fmt.Errorf("call %s of session %s names no sequence", call.Key, call.Session)
	}
	if err := send(ctx, id, "branch/"+call.IdempotencyKey, &schemas.Branch{Session: call.Session, Seq: seq}); err != nil {
		return schemas.ToolResult{}, err
	}
	result := schemas.TextResult("Branched into session " + id)
	result.Details, err = json.Marshal(map[string]string{"sessionId": id})
	return result, err
}
