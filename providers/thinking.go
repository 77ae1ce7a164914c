package providers

import (
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// thinkingLevels are all levels, from none to most.
var thinkingLevels = []schemas.ThinkingLevel{
	schemas.ThinkingOff, schemas.ThinkingMinimal, schemas.ThinkingLow, schemas.ThinkingMedium, schemas.ThinkingHigh,
	schemas.ThinkingXHigh,
}

// SupportedLevels returns the levels that the model has, from none to most. A model that does not reason has only off;
// xhigh is there only if the catalogue names it.
func (m *Model) SupportedLevels() []schemas.ThinkingLevel {
	if !m.Reasoning {
		return []schemas.ThinkingLevel{schemas.ThinkingOff}
	}
	return slices.DeleteFunc(slices.Clone(thinkingLevels), func(level schemas.ThinkingLevel) bool {
		name, listed := m.ThinkingLevels[level]
		return listed && name == nil || !listed && level == schemas.ThinkingXHigh
	})
}

// Clamp returns the level if the model has it, else the next higher one, else the next lower one. A level that does not
// exist becomes the lowest.
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

// LevelName returns what the vendor calls the level.
func (m *Model) LevelName(level schemas.ThinkingLevel) string {
	if name := m.ThinkingLevels[level]; name != nil {
		return *name
	}
	return string(level)
}

// thinkingBudgets are the tokens that a level may think for, where the vendor counts tokens.
var thinkingBudgets = map[schemas.ThinkingLevel]int64{
	schemas.ThinkingMinimal: 1024, schemas.ThinkingLow: 2048, schemas.ThinkingMedium: 8192, schemas.ThinkingHigh: 16384,
}

// minAnswer is how many tokens of a reply's limit thinking leaves for the answer.
const minAnswer = 1024

// FitThinking returns the limits of a reply, in tokens, that is to have room for base tokens besides its thinking: the
// whole reply's, at most limit, and the thinking's. Of both together at least 1024 are left for the answer, if need be
// all. custom overrides the budgets of levels; xhigh has that of high.
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
