package pipeline

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// normalised converts the schemas of parameters to the form that the model's vendor accepts. Other requirements of a
// vendor are handled by its provider, without changing the schema that arguments are validated by.
func normalised(p schemas.ToolPolicy, _, tools []schemas.ToolDefinition) ([]schemas.ToolDefinition,
	[]schemas.ToolRemoval) {
	var change func(json.RawMessage) json.RawMessage
	switch {
	case strings.HasPrefix(p.API, "google") || p.API == "" && strings.HasPrefix(p.Provider, "google"):
		change = forGemini
	case strings.Contains(p.API, "openai") || p.API == "" && strings.Contains(p.Provider, "openai"):
		change = forOpenAI
	default:
		return tools, nil
	}
	tools = slices.Clone(tools)
	for i, t := range tools {
		if changed := change(t.Parameters); !bytes.Equal(changed, compact(t.Parameters)) {
			tools[i].Parameters = changed
		}
	}
	return tools, nil
}

func compact(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// member is a member of a JSON object. Order is preserved, since models read schemas from the top.
type member struct {
	name  string
	value json.RawMessage
}

// membersOf decodes an object; ok is false for other values.
func membersOf(raw json.RawMessage) (list []member, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, false
		}
		m := member{}
		m.name, _ = name.(string)
		if err := dec.Decode(&m.value); err != nil {
			return nil, false
		}
		list = append(list, m)
	}
	return list, true
}

func objectOf(list []member) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(m.name) // a string
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// forOpenAI closes the parameters' object.
func forOpenAI(raw json.RawMessage) json.RawMessage {
	raw = compact(raw)
	list, ok := membersOf(raw)
	if !ok || slices.ContainsFunc(list, func(m member) bool { return m.name == "additionalProperties" }) {
		return raw
	}
	return objectOf(append(list, member{"additionalProperties", json.RawMessage("false")}))
}

// forGemini removes what Gemini refuses, on every level: $schema and additionalProperties. Names under "properties"
// are names of parameters and stay.
func forGemini(raw json.RawMessage) json.RawMessage { return stripped(compact(raw), false) }

func stripped(raw json.RawMessage, names bool) json.RawMessage {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) == nil && items != nil {
		parts := make([][]byte, len(items))
		for i := range items {
			parts[i] = stripped(items[i], false)
		}
		return slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]"))
	}
	list, ok := membersOf(raw)
	if !ok {
		return raw
	}
	var kept []member
	for _, m := range list {
		if !names && (m.name == "$schema" || m.name == "additionalProperties" && string(m.value) == "false") {
			continue
		}
		switch {
		case !names && (m.name == "enum" || m.name == "const" || m.name == "default" ||
			m.name == "examples"): // values, not schemas
		default:
			m.value = stripped(m.value, !names && (m.name == "properties" || m.name == "$defs" || m.name == "definitions"))
		}
		kept = append(kept, m)
	}
	return objectOf(kept)
}
