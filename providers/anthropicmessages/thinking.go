package anthropicmessages

import (
	"cmp"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/claude"
	"github.com/loopbus/loopbus/schemas"
)

// thinking holds the thinking options of a request, and the limit that depends on them.
type thinking struct {
	enabled   bool
	maxTokens int64 // of the whole reply
	config    anthropic.ThinkingConfigParamUnion
	effort    anthropic.OutputConfigEffort
}

// thinking translates the level that the session requests, or with Direct the API's own options. The level is not
// clamped to the model's levels, because the vendor uses budgets and efforts and not levels.
func (s *settings) thinking() thinking {
	t := thinking{maxTokens: s.limit()}
	requested := !s.Direct && s.Reasoning != "" && s.Reasoning != schemas.ThinkingOff
	budget, effort := s.ThinkingBudgetTokens, s.Effort
	switch {
	case requested && s.adaptive:
		effort = claude.Effort(s.Model, s.Reasoning)
	case requested:
		t.maxTokens, budget = providers.FitThinking(t.maxTokens, s.Model.MaxTokens, s.Reasoning, s.ThinkingBudgets)
	}
	t.enabled = requested || s.Direct && unlessSet(s.ThinkingEnabled, false)
	if !s.Model.Reasoning {
		return t
	}
	display := cmp.Or(s.ThinkingDisplay, claude.DisplaySummarized)
	switch {
	case t.enabled && s.adaptive:
		t.config.OfAdaptive = &anthropic.ThinkingConfigAdaptiveParam{
			Display: anthropic.ThinkingConfigAdaptiveDisplay(display),
		}
		t.effort = anthropic.OutputConfigEffort(effort)
	case t.enabled:
		t.config.OfEnabled = &anthropic.ThinkingConfigEnabledParam{
			BudgetTokens: cmp.Or(budget, claude.MinBudget), Display: anthropic.ThinkingConfigEnabledDisplay(display),
		}
	case claude.AlwaysThinks(s.Model): // the vendor refuses a request to turn it off
	case !s.Direct || s.ThinkingEnabled != nil:
		t.config.OfDisabled = new(anthropic.ThinkingConfigDisabledParam)
	}
	return t
}
