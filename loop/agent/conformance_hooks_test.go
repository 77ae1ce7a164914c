package agent_test

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

type beforeScript struct {
	Block   bool    `json:"block"`
	Reason  string  `json:"reason"`
	SetArgs members `json:"setArgs"`
	Throw   *string `json:"throw"`
}

type afterScript struct {
	Content   *schemas.Contents `json:"content"`
	Details   json.RawMessage   `json:"details"`
	IsError   *bool             `json:"isError"`
	Terminate *bool             `json:"terminate"`
	Throw     *string           `json:"throw"`
}

// A transformStep changes the messages the model is to see; one member is set.
type transformStep struct {
	KeepLast    *int         `json:"keepLast"`
	DropRole    schemas.Role `json:"dropRole"`
	AppendUser  *string      `json:"appendUser"`
	PrependUser *string      `json:"prependUser"`
	Throw       *string      `json:"throw"`
}

type convertScript struct {
	AsUser []schemas.Role `json:"asUser"`
	Throw  *string        `json:"throw"`
}

// hooks are the hooks that the scenario installs.
func (p *player) hooks() driver.Hooks {
	var h driver.Hooks
	if p.Hooks.BeforeToolCall != nil {
		h.BeforeToolCall = p.beforeToolCall
	}
	if p.Hooks.AfterToolCall != nil {
		h.AfterToolCall = p.afterToolCall
	}
	if p.Hooks.TransformContext != nil {
		h.TransformContext = p.transformContext
	}
	if p.Hooks.ConvertToLLM != nil {
		h.ConvertToLLM = p.convertToLLM
	}
	if p.Hooks.ShouldStopAfterTurn != nil {
		h.ShouldStopAfterTurn = p.shouldStopAfterTurn
	}
	if p.Hooks.GetAPIKey != nil {
		h.GetAPIKey = p.getAPIKey
	}
	if p.Hooks.GetSteeringMessages != nil {
		h.GetSteeringMessages = p.poll("getSteeringMessages", &p.Hooks.GetSteeringMessages)
	}
	if p.Hooks.GetFollowUpMessages != nil {
		h.GetFollowUpMessages = p.poll("getFollowUpMessages", &p.Hooks.GetFollowUpMessages)
	}
	return h
}

// hooked records the call of a hook with what it was shown.
func (p *player) hooked(hook string, shown object) {
	p.pause()
	shown["hook"], shown["after"] = hook, p.trace.count()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hookCalls = append(p.hookCalls, shown)
}

func (p *player) beforeToolCall(
	ctx context.Context, c driver.BeforeToolCall,
) (driver.BeforeToolCallResult, error) {
	shown := object{
		"toolCallId": c.ToolCall.ID, "rawArgs": jsonValue(c.ToolCall.Arguments), "args": jsonValue(c.Args),
		"contextMessages": len(c.Context.Messages),
	}
	if ctx.Err() != nil {
		shown["aborted"] = true
	}
	p.hooked("beforeToolCall", shown)
	script := forCall(p.Hooks.BeforeToolCall, c.ToolCall.ID)
	result := driver.BeforeToolCallResult{Block: script.Block, Reason: script.Reason}
	if script.SetArgs == nil || script.Throw != nil {
		return result, thrown(script.Throw)
	}
	var args members
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return result, err
	}
	for _, m := range script.SetArgs {
		args = args.with(m.name, m.value)
	}
	edited, err := json.Marshal(args)
	result.Args = edited
	return result, err
}

func (p *player) afterToolCall(_ context.Context, c driver.AfterToolCall) (driver.AfterToolCallResult, error) {
	p.hooked("afterToolCall", object{
		"toolCallId": c.ToolCall.ID, "args": jsonValue(c.Args), "result": normalResult(jsonValue(c.Result)),
		"isError": c.IsError, "contextMessages": len(c.Context.Messages),
	})
	script := forCall(p.Hooks.AfterToolCall, c.ToolCall.ID)
	return driver.AfterToolCallResult{
		Content: script.Content, Details: script.Details, IsError: script.IsError, Terminate: script.Terminate,
	}, thrown(script.Throw)
}

// forCall is the script for a call, or else the one for all calls.
func forCall[T any](scripts map[string]T, callID string) T {
	if script, ok := scripts[callID]; ok {
		return script
	}
	return scripts["*"]
}

func (p *player) transformContext(_ context.Context, messages schemas.Messages) (schemas.Messages, error) {
	p.hooked("transformContext", object{"messages": len(messages)})
	messages = slices.Clone(messages)
	for _, s := range p.Hooks.TransformContext {
		switch {
		case s.Throw != nil:
			return nil, thrown(s.Throw)
		case s.KeepLast != nil:
			messages = messages[max(0, len(messages)-*s.KeepLast):]
		case s.DropRole != "":
			messages = slices.DeleteFunc(messages, func(m schemas.Message) bool {
				return m.MessageRole() == s.DropRole
			})
		case s.AppendUser != nil:
			messages = append(messages, userText(*s.AppendUser))
		case s.PrependUser != nil:
			messages = slices.Insert(messages, 0, userText(*s.PrependUser))
		}
	}
	return messages, nil
}

func (p *player) convertToLLM(_ context.Context, messages schemas.Messages) (schemas.Messages, error) {
	p.hooked("convertToLlm", object{"messages": len(messages)})
	script := p.Hooks.ConvertToLLM
	if script.Throw != nil {
		return nil, thrown(script.Throw)
	}
	var out schemas.Messages
	for _, m := range messages {
		custom, ok := m.(*schemas.CustomMessage)
		if !ok {
			out = append(out, m)
			continue
		}
		if slices.Contains(script.AsUser, custom.Role) {
			var said struct {
				Text string `json:"text"`
			}
			if err := json.Unmarshal(custom.Raw, &said); err != nil {
				return nil, err
			}
			out = append(out, userText(said.Text))
		}
	}
	return out, nil
}

func (p *player) shouldStopAfterTurn(_ context.Context, c driver.TurnContext) (bool, error) {
	p.hooked("shouldStopAfterTurn", object{
		"stopReason": c.Message.StopReason, "toolResults": len(c.ToolResults),
		"contextMessages": len(c.Context.Messages), "newMessages": len(c.NewMessages),
	})
	return next(p, &p.Hooks.ShouldStopAfterTurn)
}

func (p *player) getAPIKey(_ context.Context, provider string) (string, error) {
	p.hooked("getApiKey", object{"provider": provider})
	return next(p, &p.Hooks.GetAPIKey)
}

func (p *player) poll(
	hook string, script *answers[schemas.Messages],
) func(context.Context) (schemas.Messages, error) {
	return func(context.Context) (schemas.Messages, error) {
		messages, err := next(p, script) // a poll that fails hands nothing over
		p.hooked(hook, object{"returned": len(messages)})
		return messages, err
	}
}

func next[T any](p *player, script *answers[T]) (T, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return script.next()
}
