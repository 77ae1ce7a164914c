package anthropicmessages

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/claude"
	"github.com/loopbus/loopbus/schemas"
)

// defaultOutput is the token limit of a reply if neither the request nor the catalogue has one. The vendor requires a
// limit, and every model supports this one.
const defaultOutput = 4096

// params returns the body of the request.
func (s *settings) params() (p anthropic.MessageNewParams, err error) {
	p.Model = s.Model.ID
	p.Messages = s.messages()
	if system := s.System(); strings.TrimSpace(system) != "" {
		p.System = []anthropic.TextBlockParam{{Text: system}}
	}
	if p.Tools, err = s.tools(); err != nil {
		return p, err
	}
	if p.ToolChoice, err = s.toolChoice(); err != nil {
		return p, err
	}
	if user, ok := s.Metadata["user_id"].(string); ok {
		p.Metadata.UserID = param.NewOpt(user)
	}
	t := s.thinking()
	p.MaxTokens, p.Thinking, p.OutputConfig.Effort = t.maxTokens, t.config, t.effort
	// While a model thinks, the vendor accepts only its default temperature.
	if s.Temperature != nil && !t.enabled && !claude.AlwaysThinks(s.Model) {
		p.Temperature = param.NewOpt(*s.Temperature)
	}
	s.markCache(&p)
	return p, nil
}

// limit returns the limit of the reply in tokens, including its thinking.
func (s *settings) limit() int64 {
	limit := s.Output()
	if limit == 0 {
		limit = s.Model.MaxTokens / 3
	}
	if limit == 0 {
		limit = defaultOutput
	}
	return limit
}

// tools returns the tools. Of a schema's top level it sends only properties and required, because the vendor accepts
// nothing else.
func (s *settings) tools() ([]anthropic.ToolUnionParam, error) {
	var tools []anthropic.ToolUnionParam
	for _, t := range s.Tools {
		schema, err := inputSchema(t)
		if err != nil {
			return nil, err
		}
		tool := &anthropic.ToolParam{Name: t.Name, InputSchema: schema}
		if t.Description != "" {
			tool.Description = param.NewOpt(t.Description)
		}
		if s.eagerToolInput() {
			tool.EagerInputStreaming = param.NewOpt(true)
		}
		tools = append(tools, anthropic.ToolUnionParam{OfTool: tool})
	}
	return tools, nil
}

func inputSchema(t schemas.ToolDefinition) (anthropic.ToolInputSchemaParam, error) {
	var parameters struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if len(t.Parameters) > 0 && t.Parameters[0] == '{' {
		if err := json.Unmarshal(t.Parameters, &parameters); err != nil {
			return anthropic.ToolInputSchemaParam{}, fmt.Errorf("parameters of tool %s: %w", t.Name, err)
		}
	}
	if parameters.Properties == nil {
		parameters.Properties = json.RawMessage("{}")
	}
	if parameters.Required == nil {
		parameters.Required = []string{}
	}
	return anthropic.ToolInputSchemaParam{Properties: parameters.Properties, Required: parameters.Required}, nil
}

// toolChoice returns the request's tool choice unchanged. A string counts as the type of the choice.
func (s *settings) toolChoice() (choice anthropic.ToolChoiceUnionParam, err error) {
	if len(s.ToolChoice) == 0 {
		return choice, nil
	}
	var kind string
	if json.Unmarshal(s.ToolChoice, &kind) == nil {
		return param.Override[anthropic.ToolChoiceUnionParam](map[string]string{"type": kind}), nil
	}
	if !json.Valid(s.ToolChoice) {
		return choice, fmt.Errorf("tool choice %.100q is not JSON", s.ToolChoice)
	}
	return param.Override[anthropic.ToolChoiceUnionParam](s.ToolChoice), nil
}

// markCache marks the points up to which the vendor may cache: after the system prompt, after the tools, and after the
// last message if that is the user's.
func (s *settings) markCache(p *anthropic.MessageNewParams) {
	if s.Retention() == providers.CacheNone {
		return
	}
	mark := anthropic.NewCacheControlEphemeralParam()
	if s.Retention() == providers.CacheLong && unlessSet(s.LongCache, true) {
		mark.TTL = anthropic.CacheControlEphemeralTTLTTL1h
	}
	for i := range p.System {
		p.System[i].CacheControl = mark
	}
	if n := len(p.Tools); n > 0 {
		p.Tools[n-1].OfTool.CacheControl = mark
	}
	if n := len(p.Messages); n > 0 && p.Messages[n-1].Role == anthropic.MessageParamRoleUser {
		last := &p.Messages[n-1]
		last.SetExtraFields(nil) // only content in the form of a list can have a mark
		if c := last.Content[len(last.Content)-1].GetCacheControl(); c != nil {
			*c = mark
		}
	}
}
