package bedrockconversestream

import (
	"cmp"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/claude"
	"github.com/loopbus/loopbus/schemas"
)

// thinking holds the thinking options of a request, and the limit that depends on them.
type thinking struct {
	maxTokens int64           // of the whole reply; 0 for no limit
	fields    *thinkingFields // nil if the request sets none
}

// thinkingFields holds the request fields that Bedrock passes unchanged to Anthropic's models.
type thinkingFields struct {
	Thinking     thinkingConfig `json:"thinking"`
	OutputConfig *outputConfig  `json:"output_config,omitempty"`
	Betas        []string       `json:"anthropic_beta,omitempty"`
}

type thinkingConfig struct {
	Type    string `json:"type"`
	Budget  int64  `json:"budget_tokens,omitempty"`
	Display string `json:"display,omitempty"`
}

type outputConfig struct {
	Effort string `json:"effort"`
}

// thinking translates the level that the session requests, or with Direct that of the options. It sets fields only for
// Anthropic's models: Converse has no common form for thinking, and each vendor has its own.
func (s *settings) thinking() thinking {
	t := thinking{maxTokens: s.Output()}
	level := s.Reasoning
	if s.Direct {
		level = s.DirectLevel
	}
	if !s.claude {
		return t
	}
	if level == "" || level == schemas.ThinkingOff {
		t.fields = s.thinkingOff()
		return t
	}
	fields := &thinkingFields{Thinking: thinkingConfig{Display: cmp.Or(s.ThinkingDisplay, claude.DisplaySummarized)}}
	if s.adaptive {
		fields.Thinking.Type = "adaptive"
		fields.OutputConfig = &outputConfig{Effort: claude.Effort(s.Model, level)}
	} else {
		var budget int64
		t.maxTokens, budget = s.fit(t.maxTokens, level)
		fields.Thinking.Type, fields.Thinking.Budget = "enabled", cmp.Or(budget, claude.MinBudget)
		if s.Interleaved == nil || *s.Interleaved {
			fields.Betas = []string{claude.BetaInterleaved}
		}
	}
	if s.Model.Reasoning {
		t.fields = fields
	}
	return t
}

// thinkingOff returns the fields that turn thinking off for a model that thinks by default, as the catalogue tells. It
// returns nil for other models.
func (s *settings) thinkingOff() *thinkingFields {
	kind := s.Model.ThinkingLevels[schemas.ThinkingOff]
	if s.Direct || !s.Model.Reasoning || kind == nil {
		return nil
	}
	return &thinkingFields{Thinking: thinkingConfig{Type: *kind}}
}

// fit returns the limits of the reply and of its thinking. With Direct the limit of the reply is unchanged.
func (s *settings) fit(limit int64, level schemas.ThinkingLevel) (maxTokens, budget int64) {
	if !s.Direct {
		return providers.FitThinking(limit, s.Model.MaxTokens, level, s.ThinkingBudgets)
	}
	const anyAnswer, noLimit = 1, 1 << 62
	_, budget = providers.FitThinking(anyAnswer, noLimit, level, s.ThinkingBudgets)
	return limit, budget
}
