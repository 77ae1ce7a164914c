package gemini

import (
	"regexp"
	"strings"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

type thinkingConfig struct {
	IncludeThoughts bool   `json:"includeThoughts,omitempty"`
	ThinkingLevel   string `json:"thinkingLevel,omitempty"`
	ThinkingBudget  *int64 `json:"thinkingBudget,omitempty"`
}

// vertex is the API that serves fewer families of models.
const vertex = "google-vertex"

// A family is a group of models that accept the thinking level in the same form: as the name of a level, or as a budget
// in tokens. The lists are for off, minimal, low, medium and high. With -1 the model chooses its budget.
type family struct {
	id      *regexp.Regexp
	levels  []string // nil if the models accept a budget
	budgets []int64
	not     string // the API that does not serve the family
}

var families = []family{
	{id: regexp.MustCompile(`gemini-3(?:\.\d+)?-pro`), levels: []string{"LOW", "LOW", "LOW", "HIGH", "HIGH"}},
	{id: regexp.MustCompile(`gemini-3(?:\.\d+)?-flash`), levels: []string{"MINIMAL", "MINIMAL", "LOW", "MEDIUM", "HIGH"}},
	{id: regexp.MustCompile(`gemma-?4`), levels: []string{"MINIMAL", "MINIMAL", "MINIMAL", "HIGH", "HIGH"}, not: vertex},
	{id: regexp.MustCompile(`2\.5-pro`), budgets: []int64{0, 128, 2048, 8192, 32768}},
	{id: regexp.MustCompile(`2\.5-flash-lite`), budgets: []int64{0, 512, 2048, 8192, 24576}, not: vertex},
	{id: regexp.MustCompile(`2\.5-flash`), budgets: []int64{0, 128, 2048, 8192, 24576}},
	{id: regexp.MustCompile(``), budgets: []int64{0, -1, -1, -1, -1}},
}

func familyOf(m *providers.Model) family {
	id := strings.ToLower(m.ID)
	for _, f := range families {
		if f.not != m.API && f.id.MatchString(id) {
			return f
		}
	}
	return families[len(families)-1]
}

// direct holds the thinking options of a request with [providers.Request.Direct], which sets them itself.
type direct struct {
	Thinking *struct {
		Enabled      bool   `json:"enabled"`
		BudgetTokens *int64 `json:"budgetTokens"`
		Level        string `json:"level"`
	} `json:"thinking"`
}

// newThinking returns the thinking options of a request, or nil if the model does not think or the request sets none.
func newThinking(req *providers.Request) (*thinkingConfig, error) {
	if !req.Model.Reasoning {
		return nil, nil
	}
	f := familyOf(req.Model)
	if req.Direct {
		var d direct
		if err := req.DecodeVendor(&d); err != nil || d.Thinking == nil {
			return nil, err
		}
		if !d.Thinking.Enabled {
			return f.config(schemas.ThinkingOff, nil), nil
		}
		return &thinkingConfig{IncludeThoughts: true, ThinkingLevel: d.Thinking.Level,
			ThinkingBudget: d.Thinking.BudgetTokens}, nil
	}
	level, requested := req.Level()
	if !requested {
		return f.config(schemas.ThinkingOff, nil), nil
	}
	if level == schemas.ThinkingOff { // requested of a model that cannot turn thinking off
		level = schemas.ThinkingHigh
	}
	return f.config(level, req.ThinkingBudgets), nil
}

// config returns the options for a level. custom overrides the family's budgets.
func (f family) config(level schemas.ThinkingLevel, custom map[schemas.ThinkingLevel]int64) *thinkingConfig {
	n := rank(level)
	c := &thinkingConfig{IncludeThoughts: n > 0}
	if f.levels != nil {
		c.ThinkingLevel = f.levels[n]
		return c
	}
	budget := f.budgets[n]
	if tokens, ok := custom[level]; ok {
		budget = tokens
	}
	c.ThinkingBudget = &budget
	return c
}

// rank returns the index of a level in the lists. xhigh has that of high.
func rank(level schemas.ThinkingLevel) int {
	switch level {
	case schemas.ThinkingOff:
		return 0
	case schemas.ThinkingMinimal:
		return 1
	case schemas.ThinkingLow:
		return 2
	case schemas.ThinkingMedium:
		return 3
	}
	return 4
}
