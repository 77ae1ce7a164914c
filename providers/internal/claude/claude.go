// Package claude is what Anthropic's models want wherever they are served: by Anthropic itself, or by Bedrock.
package claude

import (
	"regexp"
	"strconv"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// BetaInterleaved lets a model think between tool calls. Adaptive models do so without being asked.
const BetaInterleaved = "interleaved-thinking-2025-05-14"

// DisplaySummarized asks for thinking in words. Newer models show none otherwise.
const DisplaySummarized = "summarized"

// MinBudget is the least that a vendor takes for a budget of thinking, in tokens.
const MinBudget = 1024

// firstAdaptive is the version from which on models decide themselves how much they think, and want an effort for a
// budget.
var firstAdaptive = version{4, 6}

// Adaptive reports whether the model takes an effort, and no budget. The catalogue decides, by the compat flag
// forceAdaptiveThinking; of a model it says nothing of, the version in its id does.
func Adaptive(m *providers.Model) (bool, error) {
	var compat struct {
		Force *bool `json:"forceAdaptiveThinking"`
	}
	if err := m.DecodeCompat(&compat); err != nil {
		return false, err
	}
	if compat.Force != nil {
		return *compat.Force, nil
	}
	v, ok := versionOf(m.ID)
	return ok && !v.before(firstAdaptive), nil
}

// AlwaysThinks reports whether the model's thinking cannot be switched off: the catalogue says that it has no such
// level.
func AlwaysThinks(m *providers.Model) bool {
	name, listed := m.ThinkingLevels[schemas.ThinkingOff]
	return listed && name == nil
}

// version is that of a family of models: claude-opus-4-6 is 4.6.
type version struct{ major, minor int }

func (v version) before(w version) bool {
	return v.major < w.major || v.major == w.major && v.minor < w.minor
}

// versionRE finds the version behind the name of a family, with a bar or a point in it. A date that follows is no part
// of it.
var versionRE = regexp.MustCompile(`(?:opus|sonnet|haiku|fable|mythos)-(\d{1,2})(?:[-.](\d{1,2}))?(?:\D|$)`)

func versionOf(id string) (v version, ok bool) {
	found := versionRE.FindStringSubmatch(id)
	if found == nil {
		return v, false
	}
	v.major, _ = strconv.Atoi(found[1])
	v.minor, _ = strconv.Atoi(found[2]) // none is 0
	return v, true
}

// Effort returns what an adaptive model calls a thinking level: what the catalogue says, else the nearest that all of
// them know.
func Effort(m *providers.Model, level schemas.ThinkingLevel) string {
	if name := m.ThinkingLevels[level]; name != nil {
		return *name
	}
	switch level {
	case schemas.ThinkingMinimal, schemas.ThinkingLow:
		return "low"
	case schemas.ThinkingMedium:
		return "medium"
	}
	return "high"
}

// CleanID is the [providers.IDRule] for tool calls: the ids that a model of this family accepts.
func CleanID(id string, _ *schemas.AssistantMessage) string { return providers.CleanID(id, maxID) }

const maxID = 64
