package agent

import (
	"context"
	"slices"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// configure returns the configuration of a run: the settings at the time it starts.
func (a *Agent) configure(context.Context, string, loop.Settings) (schemas.RunConfig, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runTools, a.runID = a.settings.Tools, a.settings.SessionID
	return schemas.RunConfig{
		Model: a.settings.Model, ThinkingLevel: a.settings.ThinkingLevel, SystemPrompt: a.settings.SystemPrompt,
		Tools: a.runTools.definitions(), ToolExecution: a.settings.ToolExecution, Limits: a.settings.Limits,
	}, nil
}

func (a *Agent) execute(ctx context.Context, req schemas.ToolRequest, update func(schemas.ToolResult)) (
	result schemas.ToolResult, isError bool) {
	a.mu.Lock()
	set := a.runTools
	a.mu.Unlock()
	return set.execute(ctx, a.log, req, update)
}

// address gives a request the session id that was set when the run started.
func (a *Agent) address(req *schemas.ModelRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	req.SessionID = a.runID
}

func (a *Agent) set(change func(o *Options)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.settings)
}

// SetSystemPrompt takes effect at the next run.
func (a *Agent) SetSystemPrompt(prompt string) {
	a.set(func(o *Options) { o.SystemPrompt = prompt })
}

// SetModel takes effect at the next run.
func (a *Agent) SetModel(m schemas.ModelRef) { a.set(func(o *Options) { o.Model = m }) }

// SetThinkingLevel takes effect at the next run.
func (a *Agent) SetThinkingLevel(l schemas.ThinkingLevel) {
	a.set(func(o *Options) { o.ThinkingLevel = l })
}

// SetTools takes effect at the next run.
func (a *Agent) SetTools(set ...tools.Tool) {
	a.set(func(o *Options) { o.Tools = slices.Clone(set) })
}

// SetToolExecution takes effect at the next run.
func (a *Agent) SetToolExecution(m schemas.ExecutionMode) {
	a.set(func(o *Options) { o.ToolExecution = m })
}

// SetSessionID takes effect at the next run.
func (a *Agent) SetSessionID(id string) { a.set(func(o *Options) { o.SessionID = id }) }

// SetMessages replaces the transcript. A run under way continues with its own copy.
func (a *Agent) SetMessages(ctx context.Context, messages ...schemas.Message) error {
	return a.d.Append(ctx, &schemas.TranscriptReplaced{Messages: messages}, "")
}

// SetSteeringMode takes effect at the next poll.
func (a *Agent) SetSteeringMode(ctx context.Context, m schemas.QueueMode) error {
	return a.command(ctx, &schemas.SetModes{SteeringMode: m})
}

// SetFollowUpMode takes effect at the next poll.
func (a *Agent) SetFollowUpMode(ctx context.Context, m schemas.QueueMode) error {
	return a.command(ctx, &schemas.SetModes{FollowUpMode: m})
}
