package gateway

import (
	"bytes"
	"encoding/json"
	"maps"

	"github.com/loopbus/loopbus/schemas"
)

// refusedKeywords are those that vendors refuse at the top level of a tool's parameters. One such tool would fail every
// request of every session that has it. Below the top level they are accepted.
var refusedKeywords = []string{"oneOf", "anyOf", "allOf", "not", "enum"}

// acceptedTools returns the tools with parameters that vendors accept: objects without [refusedKeywords]. The arguments
// of a call are validated against what the tool announced. It changes no tool in place.
func acceptedTools(tools []schemas.ToolDefinition) []schemas.ToolDefinition {
	var own []schemas.ToolDefinition
	for i, t := range tools {
		parameters, changed := acceptedParameters(t.Parameters)
		if !changed {
			continue
		}
		if own == nil {
			own = append(own, tools...)
		}
		own[i].Parameters = parameters
	}
	if own == nil {
		return tools
	}
	return own
}

func acceptedParameters(parameters json.RawMessage) (accepted json.RawMessage, changed bool) {
	if !mayBeRefused(parameters) {
		return nil, false
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(parameters, &top) != nil {
		return nil, false
	}
	properties := map[string]json.RawMessage{}
	for _, keyword := range refusedKeywords {
		alternatives, found := top[keyword]
		if !found {
			continue
		}
		changed = true
		delete(top, keyword)
		addProperties(properties, alternatives)
	}
	if kind, found := top["type"]; found && string(kind) != `"object"` {
		changed = true
	}
	if !changed {
		return nil, false
	}
	var own map[string]json.RawMessage
	if json.Unmarshal(top["properties"], &own) == nil {
		maps.Copy(properties, own)
	}
	top["type"] = json.RawMessage(`"object"`)
	var err error
	if top["properties"], err = json.Marshal(properties); err == nil {
		accepted, err = json.Marshal(top)
	}
	return accepted, err == nil
}

// mayBeRefused reports whether parameters could have what [acceptedParameters] changes. It is cheap, because most have
// nothing of it.
func mayBeRefused(parameters []byte) bool {
	return bytes.Contains(parameters, []byte(`Of"`)) || bytes.Contains(parameters, []byte(`"not"`)) ||
		bytes.Contains(parameters, []byte(`"enum"`)) || !bytes.Contains(parameters, []byte(`"object"`))
}

// addProperties adds the properties of alternatives, which the model would not know otherwise.
func addProperties(properties map[string]json.RawMessage, alternatives json.RawMessage) {
	var list []struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(alternatives, &list) != nil {
		return // not a list of schemas
	}
	for _, alternative := range list {
		for name, schema := range alternative.Properties {
			if properties[name] == nil {
				properties[name] = schema
			}
		}
	}
}
