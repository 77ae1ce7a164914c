package anthropicmessages

import (
	"cmp"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/claude"
	"github.com/loopbus/loopbus/schemas"
)

// thinking is how much a model is to think, and what depends on it.
type thinking struct {
	enabled   bool
	maxTokens int64 // of the whole reply
	config    anthropic.ThinkingConfigParamUnion
	effort    anthropic.OutputConfigEffort
}

// thinking translates the level that the session asks for, or with Direct what the options say. The level is not
// clamped to the model's: the vendor knows budgets and efforts, not levels.
func (s *settings) thinking() thinking {
	t := thinking{maxTokens: s.limit()}
	asked := !s.Direct && s.Reasoning != "" && s.Reasoning != schemas.ThinkingOff
	budget, effort := s.ThinkingBudgetTokens, s.Effort
	switch {
	case asked && s.adaptive:
		effort = claude.Effort(s.Model, s.Reasoning)
	case asked:
		t.maxTokens, budget = providers.FitThinking(t.maxTokens, s.Model.MaxTokens, s.Reasoning, s.ThinkingBudgets)
	}
	t.enabled = asked || s.Direct && unlessSet(s.ThinkingEnabled, false)
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
	case claude.AlwaysThinks(s.Model): // the vendor refuses a request to stop that
	case !s.Direct || s.ThinkingEnabled != nil:
		t.config.OfDisabled = new(anthropic.ThinkingConfigDisabledParam)
	}
	return t
}
