package responses

import (
	"cmp"
	"encoding/json"
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

// Direct are the options of a request that has nothing derived.
type Direct struct {
	ReasoningEffort  string `json:"reasoningEffort"`
	ReasoningSummary string `json:"reasoningSummary"`
	ServiceTier      string `json:"serviceTier"`
}

// NewBody returns the body of a request to the deployment of that name. known are the providers whose tool call ids are
// kept apart in two.
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
	b.reason(req, direct)
	return b, direct, nil
}

// reason says how much the model is to reason, where it does at all.
func (b *Body) reason(req *providers.Request, direct *Direct) {
	if !req.Model.Reasoning {
		return
	}
	level, asked := req.Level()
	switch {
	case req.Direct && (direct.ReasoningEffort != "" || direct.ReasoningSummary != ""):
		b.think(cmp.Or(direct.ReasoningEffort, "medium"), cmp.Or(direct.ReasoningSummary, "auto"))
	case asked && level != schemas.ThinkingOff:
		b.think(req.Model.LevelName(level), "auto")
	case req.Model.Provider == providers.GitHubCopilot: // it takes no effort where none is asked for
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

// idRule is the rule for ids of other models' tool calls: the id of the call and that of its item, with a bar between
// them, of up to 64 characters each.
func idRule(target *providers.Model, known []string) providers.IDRule {
	return func(id string, from *schemas.AssistantMessage) string {
		call, item, two := strings.Cut(id, "|")
		if !two || !contains(known, target.Provider) {
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

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

func cleanID(id string) string { return strings.TrimRight(providers.CleanID(id, 64), "_") }
