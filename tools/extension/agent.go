package extension

import (
	"encoding/json"

	"github.com/loopbus/loopbus/schemas"
)

// agentParameters describe [schemas.SubagentCall] to a model.
const agentParameters = `{
	"type": "object",
	"required": ["prompt"],
	"properties": {
		"prompt": {"type": "string", "minLength": 1, "maxLength": 60000,
			"description": "What the sub-agent is to do, and all it has to know: it does not see this conversation"},
		"name": {"type": "string", "maxLength": 64, "description": "What to call the sub-agent, for people"},
		"profile": {"type": "string", "pattern": "^[A-Za-z0-9_-]*$", "maxLength": 64,
			"description": "The profile that it follows; by default that of this session"},
		"model": {"type": "string", "maxLength": 321,
			"description": "Its model, as provider/id; by default that of this session"},
		"tools": {"type": "array", "maxItems": 256, "items": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
			"description": "The tools it has at most; by default those of this session"},
		"workspace": {"type": "string", "pattern": "^[A-Za-z0-9_-]*$", "maxLength": 64,
			"description": "The workspace it works in; by default that of this session"},
		"budget": {"type": "number", "minimum": 0, "maximum": 1,
			"description": "The share that it may use of the budget that is left; by default an equal part"},
		"background": {"type": "boolean", "description": "Do not wait for its result, which will come as a message"},
		"join": {"type": "boolean", "description": "With background: do not end before its result has come"}
	}
}`

// Agent returns the definition of the tool that starts sub-agents. The runner that drives the session executes its
// calls; no worker serves it.
func Agent() schemas.ToolDefinition {
	return schemas.ToolDefinition{
		Name: schemas.ToolAgent, Label: "Sub-agent", Effect: schemas.EffectIdempotent,
		Parameters: json.RawMessage(agentParameters),
		Description: "Have another agent do a task of its own, in a session of its own, and return its last message. " +
			"Several calls in one reply work side by side.",
	}
}
