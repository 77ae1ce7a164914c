package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// tools are the scenario's tools of the given names, in the scenario's order; nil means all.
func (p *player) tools(names *[]string) (set []tools.Tool) {
	for _, t := range p.Tools {
		if names == nil || slices.Contains(*names, t.Name) {
			set = append(set, p.tool(t))
		}
	}
	return set
}

func (p *player) tool(t scriptedTool) tools.Tool {
	return tools.Tool{
		ToolDefinition: schemas.ToolDefinition{
			Name: t.Name, Parameters: t.Parameters, ExecutionMode: t.ExecutionMode,
		},
		Execute: func(ctx context.Context, call tools.Call) (schemas.ToolResult, error) {
			p.executing(ctx, t.Name, call.ID, call.Arguments)
			if err := p.trace.begin(call.ID); err != nil {
				return schemas.ToolResult{}, err
			}
			return p.execute(ctx, call.ID, call.Update)
		},
	}
}

// prepareArguments runs the steps of the named tool, which is one of the scenario's.
func (p *player) prepareArguments(name string, raw json.RawMessage) (json.RawMessage, error) {
	i := slices.IndexFunc(p.Tools, func(t scriptedTool) bool { return t.Name == name })
	if steps := p.Tools[i].PrepareArguments; steps != nil {
		return prepare(steps, raw)
	}
	return raw, nil
}

func (p *player) executing(ctx context.Context, tool, callID string, args json.RawMessage) {
	execution := object{"toolCallId": callID, "tool": tool, "args": jsonValue(args)}
	if ctx.Err() != nil {
		execution["aborted"] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.executed = append(p.executed, execution)
}

func (p *player) execute(
	ctx context.Context, callID string, update func(schemas.ToolResult),
) (schemas.ToolResult, error) {
	for _, s := range p.ToolCalls[callID] {
		p.pause()
		switch {
		case s.Update != nil:
			update(*s.Update)
		case s.Wait != nil:
			if err := p.trace.wait(ctx, *s.Wait); err != nil {
				return schemas.ToolResult{}, err
			}
		case s.Return != nil:
			return *s.Return, nil
		case s.Throw != nil:
			return schemas.ToolResult{}, errors.New(*s.Throw)
		}
	}
	ok := schemas.TextResult("ok " + callID)
	ok.Details = json.RawMessage("{}")
	return ok, nil
}

// A prepareStep changes raw arguments before they are validated; one member is set.
type prepareStep struct {
	Rename  members  `json:"rename"`
	Default members  `json:"default"`
	Drop    []string `json:"drop"`
	Throw   *string  `json:"throw"`
}

func prepare(steps []prepareStep, raw json.RawMessage) (json.RawMessage, error) {
	var args members
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, err
	}
	for _, s := range steps {
		if s.Throw != nil {
			return nil, errors.New(*s.Throw)
		}
		for _, r := range s.Rename {
			var to string
			if err := json.Unmarshal(r.value, &to); err != nil {
				return nil, err
			}
			if value, ok := args.get(r.name); ok {
				args = args.without(r.name).with(to, value)
			}
		}
		for _, d := range s.Default {
			if _, ok := args.get(d.name); !ok {
				args = args.with(d.name, d.value)
			}
		}
		args = args.without(s.Drop...)
	}
	return json.Marshal(args)
}

// members is a JSON object that keeps the order of its members: validation errors quote arguments in it.
type members []member

type member struct {
	name  string
	value json.RawMessage
}

func (ms members) get(name string) (json.RawMessage, bool) {
	i := slices.IndexFunc(ms, func(m member) bool { return m.name == name })
	if i < 0 {
		return nil, false
	}
	return ms[i].value, true
}

// with sets a member, in its place if there is one of this name, else at the end.
func (ms members) with(name string, value json.RawMessage) members {
	out := slices.Clone(ms)
	for i := range out {
		if out[i].name == name {
			out[i].value = value
			return out
		}
	}
	return append(out, member{name, value})
}

func (ms members) without(names ...string) members {
	return slices.DeleteFunc(slices.Clone(ms), func(m member) bool { return slices.Contains(names, m.name) })
}

func (ms *members) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return fmt.Errorf("%s is not an object: %w", data, err)
	}
	*ms = members{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		*ms = ms.with(name.(string), value)
	}
	return nil
}

func (ms members) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range ms {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := schemas.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
