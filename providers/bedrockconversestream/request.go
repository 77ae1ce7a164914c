package bedrockconversestream

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"

	"github.com/loopbus/loopbus/providers"
)

// input returns the request in the form of the SDK.
func (s *settings) input() (*bedrockruntime.ConverseStreamInput, error) {
	in := &bedrockruntime.ConverseStreamInput{ModelId: aws.String(s.Model.ID)}
	if system := s.System(); system != "" {
		in.System = []types.SystemContentBlock{&types.SystemContentBlockMemberText{Value: system}}
		if s.caches() {
			in.System = append(in.System, &types.SystemContentBlockMemberCachePoint{Value: s.cachePoint()})
		}
	}
	var err error
	if in.Messages, err = s.messages(); err != nil {
		return nil, err
	}
	if in.ToolConfig, err = s.toolConfig(); err != nil {
		return nil, err
	}
	t := s.thinking()
	in.InferenceConfig = s.inference(t)
	if t.fields != nil {
		raw, err := json.Marshal(t.fields)
		if err != nil {
			return nil, err
		}
		in.AdditionalModelRequestFields = rawDocument{json: raw}
	}
	return in, nil
}

func (s *settings) inference(t thinking) *types.InferenceConfiguration {
	config := new(types.InferenceConfiguration)
	if t.maxTokens > 0 {
		config.MaxTokens = aws.Int32(int32(min(t.maxTokens, math.MaxInt32)))
	}
	if s.Temperature != nil && t.fields == nil { // only the default is accepted while a model thinks
		config.Temperature = aws.Float32(float32(*s.Temperature))
	}
	return config
}

func (s *settings) cachePoint() types.CachePointBlock {
	point := types.CachePointBlock{Type: types.CachePointTypeDefault}
	if s.Retention() == providers.CacheLong {
		point.Ttl = types.CacheTTLOneHour
	}
	return point
}

// toolConfig returns the tools with their schemas unchanged, or nil if there are no tools or none may be called.
func (s *settings) toolConfig() (*types.ToolConfiguration, error) {
	choice, none, err := s.toolChoice()
	if err != nil || none || len(s.Tools) == 0 {
		return nil, err
	}
	config := &types.ToolConfiguration{ToolChoice: choice}
	for _, t := range s.Tools {
		schema, err := documentOf(t.Parameters, "parameters of tool "+t.Name)
		if err != nil {
			return nil, err
		}
		spec := types.ToolSpecification{Name: aws.String(t.Name),
			InputSchema: &types.ToolInputSchemaMemberJson{Value: schema}}
		if t.Description != "" {
			spec.Description = aws.String(t.Description)
		}
		config.Tools = append(config.Tools, &types.ToolMemberToolSpec{Value: spec})
	}
	return config, nil
}

// toolChoice returns the tool choice. none reports whether no tool may be called, for which the vendor has no choice:
// the request then has no tools.
func (s *settings) toolChoice() (choice types.ToolChoice, none bool, err error) {
	if len(s.ToolChoice) == 0 {
		return nil, false, nil
	}
	var object struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	if json.Unmarshal(s.ToolChoice, &object.Type) != nil {
		if err := json.Unmarshal(s.ToolChoice, &object); err != nil {
			return nil, false, fmt.Errorf("tool choice: %w", err)
		}
	}
	switch object.Type {
	case "auto":
		return &types.ToolChoiceMemberAuto{}, false, nil
	case "any":
		return &types.ToolChoiceMemberAny{}, false, nil
	case "tool":
		return &types.ToolChoiceMemberTool{Value: types.SpecificToolChoice{Name: aws.String(object.Name)}}, false, nil
	case "none":
		return nil, true, nil
	}
	return nil, false, nil
}
