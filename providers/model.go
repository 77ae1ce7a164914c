package providers

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// The kinds of input a [Model] may take.
const (
	InputText  = "text"
	InputImage = "image"
)

// GitHubCopilot is the provider that requires extra headers with every request, and its key as a bearer token.
const GitHubCopilot = "github-copilot"

// Model is an entry of the catalogue: everything that a request must know about a model. It is immutable and may be
// shared.
//
// ThinkingLevels maps levels to the vendor's names; null means that the model does not have the level. Compat holds
// flags of the API package; see [Model.DecodeCompat].
type Model struct {
	ID             string                            `json:"id"`
	Name           string                            `json:"name"`
	API            string                            `json:"api"`
	Provider       string                            `json:"provider"`
	BaseURL        string                            `json:"baseUrl"`
	Reasoning      bool                              `json:"reasoning"`
	Input          []string                          `json:"input"`
	Cost           Rates                             `json:"cost"`
	ContextWindow  int64                             `json:"contextWindow"` // tokens
	MaxTokens      int64                             `json:"maxTokens"`     // of one reply; 0 is unknown
	Headers        map[string]string                 `json:"headers,omitempty"`
	ThinkingLevels map[schemas.ThinkingLevel]*string `json:"thinkingLevelMap,omitempty"`
	Compat         json.RawMessage                   `json:"compat,omitempty"`
}

// Rates are prices in US dollars per million tokens.
type Rates struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cacheRead"`
	CacheWrite float64 `json:"cacheWrite"`
}

// Ref returns the reference of the model.
func (m *Model) Ref() schemas.ModelRef {
	return schemas.ModelRef{API: m.API, Provider: m.Provider, ID: m.ID}
}

// SeesImages reports whether the model accepts images.
func (m *Model) SeesImages() bool { return slices.Contains(m.Input, InputImage) }

// Wrote reports whether the model produced the reply. Signatures and hidden thinking are meaningful only to the model
// that produced them.
func (m *Model) Wrote(reply *schemas.AssistantMessage) bool {
	return reply.Provider == m.Provider && reply.API == m.API && reply.Model == m.ID
}

// Price returns the cost of the tokens.
func (m *Model) Price(u schemas.Usage) schemas.Cost {
	c := schemas.Cost{
		Input:      m.Cost.Input / 1e6 * float64(u.Input),
		Output:     m.Cost.Output / 1e6 * float64(u.Output),
		CacheRead:  m.Cost.CacheRead / 1e6 * float64(u.CacheRead),
		CacheWrite: m.Cost.CacheWrite / 1e6 * float64(u.CacheWrite),
	}
	c.Total = c.Input + c.Output + c.CacheRead + c.CacheWrite
	return c
}

// DecodeCompat decodes the compat flags into a struct of the API package and ignores unknown members. Without flags
// it changes nothing.
func (m *Model) DecodeCompat(into any) error {
	if len(m.Compat) == 0 {
		return nil
	}
	if err := json.Unmarshal(m.Compat, into); err != nil {
		return fmt.Errorf("compat of model %s: %w", m.Ref(), err)
	}
	return nil
}
