// Package extension provides the tools with which a model acts on its own session: session_branch and
// agent_interrupt. A runner serves them. They do what any client can do: they send commands.
package extension

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// Texts of results.
const (
	textInterrupt = "Interrupt request sent"
	reasonOfAgent = "agent-requested"
)

// ErrNoSession is the error of a call by a caller without a session, such as an MCP client.
var ErrNoSession = errors.New("the tool acts on the session that calls it, and the caller has none")

// Tools returns both tools. If the client cannot send a command, the call gets an error result.
func Tools(c *client.Client) ([]tools.Tool, error) {
	branch, err := tools.Typed(schemas.ToolDefinition{
		Name: schemas.ToolSessionBranch, Label: "Branch session", Effect: schemas.EffectIdempotent,
		Description: "Copy this session, as far as the latest complete message, into a new session that goes its own way. " +
			"This session goes on unchanged. Returns the new session's id.",
	}, func(ctx context.Context, call tools.Call, _ struct{}) (schemas.ToolResult, error) {
		return branchSession(ctx, c, call)
	})
	if err != nil {
		return nil, err
	}
	interrupt, err := tools.Typed(schemas.ToolDefinition{
		Name: schemas.ToolAgentInterrupt, Label: "Interrupt", Effect: schemas.EffectIdempotent,
		Description: "End the current run at once, without another model call. What is queued starts afterwards.",
	}, func(ctx context.Context, call tools.Call, _ struct{}) (schemas.ToolResult, error) {
		return interrupt(ctx, c, call)
	})
	return []tools.Tool{branch, interrupt}, err
}

// stateTimeout limits the query for queued inputs after an interrupt.
const stateTimeout = 2 * time.Second

// interrupt aborts the run of the calling session. Its result lists what is queued: an abort keeps the queue, and the
// next run starts with it.
func interrupt(ctx context.Context, c *client.Client, call tools.Call) (schemas.ToolResult, error) {
	if call.NoSession {
		return schemas.ToolResult{}, ErrNoSession
	}
	s, text := c.Session(call.Session), textInterrupt
	soon, cancel := context.WithTimeout(ctx, stateTimeout)
	state, err := s.State(soon)
	cancel()
	if waits := state.Queued(); err == nil && waits != "" {
		text += "; waiting for the next run: " + waits
	}
	_, err = s.Send(ctx, &schemas.Abort{Reason: reasonOfAgent}, client.WithID("interrupt/"+string(call.Key)))
	return schemas.TextResult(text), err
}

// branchSession requests the copy, which is made a moment later; a command sent to the new session after this finds
// it made. Neither the model nor anyone else can choose the copy's id.
func branchSession(ctx context.Context, c *client.Client, call tools.Call) (schemas.ToolResult, error) {
	if call.NoSession {
		return schemas.ToolResult{}, ErrNoSession
	}
	seq, err := strconv.ParseUint(strings.TrimPrefix(string(call.Key), "c"), 10, 64)
	if err != nil {
		return schemas.ToolResult{}, fmt.Errorf("call %s of session %s has an invalid key", call.Key, call.Session)
	}
	id := schemas.CallSession(call.Session, call.Key, call.IdempotencyKey)
	_, err = c.Session(id).Send(ctx, &schemas.Branch{Session: call.Session, Seq: seq},
		client.WithID("branch/"+call.IdempotencyKey))
	if err != nil {
		return schemas.ToolResult{}, err
	}
	result := schemas.TextResult("Branched into session " + id)
	result.Details, err = json.Marshal(map[string]string{"sessionId": id})
	return result, err
}
