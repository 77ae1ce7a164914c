package driver

import (
	"context"
	"slices"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// configure is what a run is driven with: the settings of the moment it starts.
func (a *Agent) configure(context.Context, *loop.State) (schemas.RunConfig, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runTools, a.runID = a.settings.Tools, a.settings.SessionID
	return schemas.RunConfig{
		Model: a.settings.Model, ThinkingLevel: a.settings.ThinkingLevel, SystemPrompt: a.settings.SystemPrompt,
		Tools: a.runTools.definitions(), ToolExecution: a.settings.ToolExecution, Limits: a.settings.Limits,
	}, nil
}

func (a *Agent) currentTools() toolset {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runTools
}

func (a *Agent) prepare(tool string, raw []byte) ([]byte, error) {
	return a.currentTools().prepare(tool, raw)
}

func (a *Agent) sessionID() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runID
}

func (a *Agent) set(change func(o *AgentOptions)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.settings)
}

// SetSystemPrompt applies from the next run on.
func (a *Agent) SetSystemPrompt(prompt string) {
	a.set(func(o *AgentOptions) { o.SystemPrompt = prompt })
}

// SetModel applies from the next run on.
func (a *Agent) SetModel(m schemas.ModelRef) { a.set(func(o *AgentOptions) { o.Model = m }) }

// SetThinkingLevel applies from the next run on.
func (a *Agent) SetThinkingLevel(l schemas.ThinkingLevel) {
	a.set(func(o *AgentOptions) { o.ThinkingLevel = l })
}

// SetTools applies from the next run on.
func (a *Agent) SetTools(tools ...Tool) {
	a.set(func(o *AgentOptions) { o.Tools = slices.Clone(tools) })
}

// SetToolExecution applies from the next run on.
func (a *Agent) SetToolExecution(m schemas.ExecutionMode) {
	a.set(func(o *AgentOptions) { o.ToolExecution = m })
}

// SetSessionID applies from the next run on.
func (a *Agent) SetSessionID(id string) { a.set(func(o *AgentOptions) { o.SessionID = id }) }

// SetMessages replaces the transcript. A run under way goes on with its own copy.
func (a *Agent) SetMessages(messages ...schemas.Message) {
	a.replace(&schemas.TranscriptReplaced{Messages: messages})
}

// SetSteeringMode applies from the next poll on.
func (a *Agent) SetSteeringMode(m schemas.QueueMode) { a.command(&schemas.SetModes{SteeringMode: m}) }

// SetFollowUpMode applies from the next poll on.
func (a *Agent) SetFollowUpMode(m schemas.QueueMode) { a.command(&schemas.SetModes{FollowUpMode: m}) }
