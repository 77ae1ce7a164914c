package anthropicmessages

import (
	"strings"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/claude"
)

// betaFineGrained is the beta feature that streams the arguments of all tools unbuffered. Servers that do not know the
// mark of a tool support it.
const betaFineGrained = "fine-grained-tool-streaming-2025-05-14"

// settings is a request with its model's compat flags and the API's own options.
type settings struct {
	*providers.Request
	compat
	vendor
	adaptive bool // the model accepts an effort instead of a budget
}

type compat struct {
	EagerToolInput *bool `json:"supportsEagerToolInputStreaming"`
	LongCache      *bool `json:"supportsLongCacheRetention"`
}

type vendor struct {
	ThinkingEnabled      *bool  `json:"thinkingEnabled"`
	ThinkingBudgetTokens int64  `json:"thinkingBudgetTokens"`
	ThinkingDisplay      string `json:"thinkingDisplay"`
	Effort               string `json:"effort"`
	Interleaved          *bool  `json:"interleavedThinking"`
}

func settingsOf(req *providers.Request) (*settings, error) {
	s := &settings{Request: req}
	if err := req.Model.DecodeCompat(&s.compat); err != nil {
		return nil, err
	}
	if err := req.DecodeVendor(&s.vendor); err != nil {
		return nil, err
	}
	var err error
	s.adaptive, err = claude.Adaptive(req.Model)
	return s, err
}

func (s *settings) eagerToolInput() bool { return unlessSet(s.EagerToolInput, true) }

// betas returns the value of the header that enables beta features.
func (s *settings) betas() string {
	var betas []string
	if len(s.Tools) > 0 && !s.eagerToolInput() {
		betas = append(betas, betaFineGrained)
	}
	if !s.adaptive && unlessSet(s.Interleaved, true) {
		betas = append(betas, claude.BetaInterleaved)
	}
	return strings.Join(betas, ",")
}

// unlessSet returns the flag, or value if the flag is not set.
func unlessSet(flag *bool, value bool) bool {
	if flag != nil {
		return *flag
	}
	return value
}
