package claude_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/catalogue"
	"github.com/loopbus/loopbus/providers/internal/claude"
	"github.com/loopbus/loopbus/schemas"
)

func adaptive(t *testing.T, m *providers.Model) bool {
	t.Helper()
	is, err := claude.Adaptive(m)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

func TestAdaptiveByVersion(t *testing.T) {
	for id, want := range map[string]bool{
		"claude-opus-4-6": true, "claude-opus-4.7": true, "claude-sonnet-4-6": true, "claude-sonnet-5": true,
		"claude-opus-5-20260801":            true,
		"us.anthropic.claude-opus-4-8-v1:0": true, "anthropic/claude-sonnet-4.6": true, "claude-haiku-5-1": true,
		"claude-opus-10": true, "claude-fable-5": true,
		"claude-opus-4-5": false, "claude-opus-4-5-20251101": false, "claude-sonnet-4-20250514": false,
		"claude-opus-4":    false,
		"claude-haiku-4-5": false, "claude-3-7-sonnet-20250219": false, "claude-3-opus-20240229": false, "gpt-5.4": false,
		"": false,
	} {
		if got := adaptive(t, &providers.Model{ID: id}); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
	for flag, want := range map[string]bool{"true": true, "false": false} {
		m := &providers.Model{ID: "claude-opus-4-6", Compat: json.RawMessage(`{"forceAdaptiveThinking":` + flag + `}`)}
		if got := adaptive(t, m); got != want {
			t.Errorf("with the flag %s: %v", flag, got)
		}
	}
}

// TestTheCatalogueAndTheVersionAgree checks that the catalogue flags exactly the models that are adaptive by their
// version.
func TestTheCatalogueAndTheVersionAgree(t *testing.T) {
	c, err := catalogue.Load("")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range c.Models() {
		if m.API != "anthropic-messages" && m.API != "bedrock-converse-stream" {
			continue
		}
		flagged := strings.Contains(string(m.Compat), `"forceAdaptiveThinking":true`)
		if byID := adaptive(t, &providers.Model{ID: m.ID}); byID != flagged {
			t.Errorf("%s is adaptive: %v by its id, %v by the catalogue", m.Ref(), byID, flagged)
		}
		if _, named := m.ThinkingLevels[schemas.ThinkingXHigh]; named && !flagged {
			t.Errorf("%s has an effort above high, and is not adaptive", m.Ref())
		}
		n++
	}
	if n < 10 {
		t.Errorf("only %d models were checked", n)
	}
}
