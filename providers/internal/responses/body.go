package responses

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// Body is a request.
type Body struct {
	Model                string          `json:"model"`
	Input                []any           `json:"input"`
	Stream               bool            `json:"stream"`
	PromptCacheKey       string          `json:"prompt_cache_key,omitempty"`
	PromptCacheRetention string          `json:"prompt_cache_retention,omitempty"`
	Store                *bool           `json:"store,omitempty"`
	MaxOutputTokens      int64           `json:"max_output_tokens,omitempty"`
	Temperature          *float64        `json:"temperature,omitempty"`
	ServiceTier          string          `json:"service_tier,omitempty"`
	Tools                []tool          `json:"tools,omitempty"`
	ToolChoice           json.RawMessage `json:"tool_choice,omitempty"`
	Reasoning            *reasoning      `json:"reasoning,omitempty"`
	Include              []string        `json:"include,omitempty"`
}

type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      bool            `json:"strict"`
}

type reasoning struct {
	Effort  string `json:"effort"`
	Summary string `json:"summary,omitempty"`
}

// Direct holds the API's options of a request with [providers.Request.Direct], which sets them itself.
type Direct struct {
	ReasoningEffort  string `json:"reasoningEffort"`
	ReasoningSummary string `json:"reasoningSummary"`
	ServiceTier      string `json:"serviceTier"`
}

// NewBody returns the body of a request to the model or deployment of that name. known lists the providers whose tool
// call ids have two parts, that of the call and that of its item.
func NewBody(req *providers.Request, deployment string, known ...string) (*Body, *Direct, error) {
	direct := new(Direct)
	if err := req.DecodeVendor(direct); err != nil {
		return nil, nil, err
	}
	b := &Body{
		Model: deployment, Input: input(req, known), Stream: true, MaxOutputTokens: req.Output(),
		Temperature: req.Temperature, ServiceTier: direct.ServiceTier, ToolChoice: req.ToolChoice,
	}
	for _, t := range req.Tools {
		b.Tools = append(b.Tools, tool{Type: "function", Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	b.setReasoning(req, direct)
	return b, direct, nil
}

// setReasoning sets how much the model reasons, if it reasons at all.
func (b *Body) setReasoning(req *providers.Request, direct *Direct) {
	if !req.Model.Reasoning {
		return
	}
	level, requested := req.Level()
	switch {
	case req.Direct && (direct.ReasoningEffort != "" || direct.ReasoningSummary != ""):
		b.think(cmp.Or(direct.ReasoningEffort, "medium"), cmp.Or(direct.ReasoningSummary, "auto"))
	case requested && level != schemas.ThinkingOff:
		b.think(req.Model.LevelName(level), "auto")
	case req.Model.Provider == providers.GitHubCopilot: // it accepts no effort unless one is requested
	default:
		if name, ok := req.Model.ThinkingLevels[schemas.ThinkingOff]; !ok {
			b.Reasoning = &reasoning{Effort: "none"}
		} else if name != nil {
			b.Reasoning = &reasoning{Effort: *name}
		}
	}
}

func (b *Body) think(effort, summary string) {
	b.Reasoning = &reasoning{Effort: effort, Summary: summary}
	b.Include = []string{"reasoning.encrypted_content"}
}

// idRule returns the rule for the ids of other models' tool calls: the id of the call and the id of its item, at most
// 64 characters each, joined by a "|". A target that is not in known gets one id of at most 64 characters.
func idRule(target *providers.Model, known []string) providers.IDRule {
	return func(id string, from *schemas.AssistantMessage) string {
		call, item, two := strings.Cut(id, "|")
		if !two || !slices.Contains(known, target.Provider) {
			return cleanID(id)
		}
		if from.Provider != target.Provider || from.API != target.API {
			return cleanID(call) + "|fc_" + providers.ShortHash(item)
		}
		item = cleanID(item)
		if !strings.HasPrefix(item, "fc_") {
			item = cleanID("fc_" + item)
		}
		return cleanID(call) + "|" + item
	}
}

func cleanID(id string) string { return strings.TrimRight(providers.CleanID(id, 64), "_") }
