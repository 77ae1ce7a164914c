package bedrockconversestream

import (
	"strings"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/claude"
	"github.com/loopbus/loopbus/schemas"
)

// settings is a request with its model's compat flags and the API's own options.
type settings struct {
	*providers.Request
	compat
	vendor
	claude   bool // the model is one of Anthropic's
	adaptive bool // the model accepts an effort instead of a budget
}

type compat struct {
	CachePoints *bool `json:"supportsCachePoints"`
}

type vendor struct {
	Region          string                `json:"region"`
	Profile         string                `json:"profile"`
	DirectLevel     schemas.ThinkingLevel `json:"reasoning"`
	ThinkingDisplay string                `json:"thinkingDisplay"`
	Interleaved     *bool                 `json:"interleavedThinking"`
}

func settingsOf(req *providers.Request) (*settings, error) {
	s := &settings{Request: req, claude: strings.Contains(names(req.Model), "claude")}
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

// names returns the id and the name of the model in a uniform spelling. The name is needed because the id of an
// inference profile may not tell the model.
func names(m *providers.Model) string {
	spelling := strings.NewReplacer(" ", "-", "_", "-", ".", "-", ":", "-", "/", "-")
	return spelling.Replace(strings.ToLower(m.ID)) + "\n" + spelling.Replace(strings.ToLower(m.Name)) + "\n"
}

// cachingModels lists parts of the names of models that support cache points.
var cachingModels = []string{"claude-3-5-haiku", "claude-3-7-sonnet"}

// caches reports whether the request has cache points.
func (s *settings) caches() bool {
	if s.Retention() == providers.CacheNone {
		return false
	}
	if s.CachePoints != nil {
		return *s.CachePoints
	}
	called := names(s.Model)
	for _, part := range cachingModels {
		if strings.Contains(called, part) {
			return true
		}
	}
	return s.claude && (strings.Contains(called, "-4-") || strings.Contains(called, "-4\n"))
}
