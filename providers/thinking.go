package providers

import (
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// thinkingLevels lists all levels in increasing order.
var thinkingLevels = []schemas.ThinkingLevel{
	schemas.ThinkingOff, schemas.ThinkingMinimal, schemas.ThinkingLow, schemas.ThinkingMedium, schemas.ThinkingHigh,
	schemas.ThinkingXHigh,
}

// SupportedLevels returns the thinking levels of the model in increasing order. A model without reasoning has only
// off; xhigh is included only if the catalogue names it.
func (m *Model) SupportedLevels() []schemas.ThinkingLevel {
	if !m.Reasoning {
		return []schemas.ThinkingLevel{schemas.ThinkingOff}
	}
	return slices.DeleteFunc(slices.Clone(thinkingLevels), func(level schemas.ThinkingLevel) bool {
		name, listed := m.ThinkingLevels[level]
		return listed && name == nil || !listed && level == schemas.ThinkingXHigh
	})
}

// Clamp returns the level if the model has it, otherwise the next higher one, otherwise the next lower one. An
// unknown level becomes the lowest.
func (m *Model) Clamp(level schemas.ThinkingLevel) schemas.ThinkingLevel {
	supported := m.SupportedLevels()
	if len(supported) == 0 {
		return schemas.ThinkingOff
	}
	wanted := slices.Index(thinkingLevels, level)
	if wanted < 0 {
		return supported[0]
	}
	for _, s := range supported {
		if slices.Index(thinkingLevels, s) >= wanted {
			return s
		}
	}
	return supported[len(supported)-1]
}

// LevelName returns the vendor's name of the level.
func (m *Model) LevelName(level schemas.ThinkingLevel) string {
	if name := m.ThinkingLevels[level]; name != nil {
		return *name
	}
	return string(level)
}

// thinkingBudgets maps levels to limits in tokens, for vendors that limit thinking by tokens.
var thinkingBudgets = map[schemas.ThinkingLevel]int64{
	schemas.ThinkingMinimal: 1024, schemas.ThinkingLow: 2048, schemas.ThinkingMedium: 8192, schemas.ThinkingHigh: 16384,
}

// minAnswer is how many tokens of a reply's limit are kept for the answer.
const minAnswer = 1024

// FitThinking returns the token limits for a reply that needs base tokens besides its thinking: the limit of the
// whole reply, at most limit, and the limit of the thinking. At least 1024 of them are left for the answer, if
// necessary all. custom overrides the budgets of levels; xhigh uses that of high.
func FitThinking(base, limit int64, level schemas.ThinkingLevel, custom map[schemas.ThinkingLevel]int64) (maxTokens,
	budget int64) {
	if level == schemas.ThinkingXHigh {
		level = schemas.ThinkingHigh
	}
	budget, ok := custom[level]
	if !ok {
		budget = thinkingBudgets[level]
	}
	maxTokens = min(base+budget, limit)
	if maxTokens <= budget {
		budget = max(0, maxTokens-minAnswer)
	}
	return maxTokens, budget
}
