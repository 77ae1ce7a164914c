package agent

import (
	"context"
	"slices"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// configure is what a run is driven with: the settings of the moment it starts.
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

func (a *Agent) sessionID() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runID
}

func (a *Agent) set(change func(o *Options)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.settings)
}

// SetSystemPrompt applies from the next run on.
func (a *Agent) SetSystemPrompt(prompt string) {
	a.set(func(o *Options) { o.SystemPrompt = prompt })
}

// SetModel applies from the next run on.
func (a *Agent) SetModel(m schemas.ModelRef) { a.set(func(o *Options) { o.Model = m }) }

// SetThinkingLevel applies from the next run on.
func (a *Agent) SetThinkingLevel(l schemas.ThinkingLevel) {
	a.set(func(o *Options) { o.ThinkingLevel = l })
}

// SetTools applies from the next run on.
func (a *Agent) SetTools(set ...tools.Tool) {
	a.set(func(o *Options) { o.Tools = slices.Clone(set) })
}

// SetToolExecution applies from the next run on.
func (a *Agent) SetToolExecution(m schemas.ExecutionMode) {
	a.set(func(o *Options) { o.ToolExecution = m })
}

// SetSessionID applies from the next run on.
func (a *Agent) SetSessionID(id string) { a.set(func(o *Options) { o.SessionID = id }) }

// SetMessages replaces the transcript. A run under way goes on with its own copy.
func (a *Agent) SetMessages(ctx context.Context, messages ...schemas.Message) error {
	return a.d.Append(ctx, &schemas.TranscriptReplaced{Messages: messages}, "")
}

// SetSteeringMode applies from the next poll on.
func (a *Agent) SetSteeringMode(ctx context.Context, m schemas.QueueMode) error {
	return a.command(ctx, &schemas.SetModes{SteeringMode: m})
}

// SetFollowUpMode applies from the next poll on.
func (a *Agent) SetFollowUpMode(ctx context.Context, m schemas.QueueMode) error {
	return a.command(ctx, &schemas.SetModes{FollowUpMode: m})
}
