// Package claude holds the rules for requests to Anthropic's models that do not depend on who serves them: Anthropic
// itself or Bedrock.
package claude

import (
	"regexp"
	"strconv"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// BetaInterleaved is the beta feature that lets a model think between tool calls. Adaptive models do so without it.
const BetaInterleaved = "interleaved-thinking-2025-05-14"

// DisplaySummarized requests a summary of the thinking. Newer models send no text of their thinking without it.
const DisplaySummarized = "summarized"

// MinBudget is the smallest thinking budget that the vendors accept, in tokens.
const MinBudget = 1024

// firstAdaptive is the first version whose models decide themselves how much they think. They accept an effort instead
// of a budget.
var firstAdaptive = version{4, 6}

// Adaptive reports whether the model accepts an effort instead of a thinking budget. The compat flag
// forceAdaptiveThinking of the catalogue decides. Without the flag, the version in the model's id decides.
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

// AlwaysThinks reports whether the model's thinking cannot be turned off: the catalogue lists the level off as
// unsupported.
func AlwaysThinks(m *providers.Model) bool {
	name, listed := m.ThinkingLevels[schemas.ThinkingOff]
	return listed && name == nil
}

// version is the version of a family of models: claude-opus-4-6 has version 4.6.
type version struct{ major, minor int }

func (v version) before(w version) bool {
	return v.major < w.major || v.major == w.major && v.minor < w.minor
}

// versionRE matches the version after the name of a family, with a hyphen or a dot in it. A date that follows is not
// part of the version.
var versionRE = regexp.MustCompile(`(?:opus|sonnet|haiku|fable|mythos)-(\d{1,2})(?:[-.](\d{1,2}))?(?:\D|$)`)

func versionOf(id string) (v version, ok bool) {
	found := versionRE.FindStringSubmatch(id)
	if found == nil {
		return v, false
	}
	v.major, _ = strconv.Atoi(found[1])
	v.minor, _ = strconv.Atoi(found[2]) // 0 if there is none
	return v, true
}

// Effort returns an adaptive model's name of a thinking level: the name in the catalogue, or else the nearest of the
// names that all adaptive models know.
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

// CleanID is the [providers.IDRule] for tool calls. It returns an id that Anthropic's models accept.
func CleanID(id string, _ *schemas.AssistantMessage) string { return providers.CleanID(id, maxID) }

const maxID = 64 // bytes of a tool call's id that the vendors accept
