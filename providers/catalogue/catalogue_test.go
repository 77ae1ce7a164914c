package catalogue_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/catalogue"
	"github.com/loopbus/loopbus/schemas"
)

func load(t *testing.T, user string) *catalogue.Catalogue {
	t.Helper()
	c, err := catalogue.Parse([]byte(user))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheBuiltInCatalogueIsSound(t *testing.T) {
	c := load(t, "")
	seen := map[string]bool{}
	for _, m := range c.Models() {
		ref := m.Ref().String()
		if seen[ref] {
			t.Errorf("%s is there twice", ref)
		}
		seen[ref] = true
		if m.Name == "" || len(m.Input) == 0 || m.ContextWindow < m.MaxTokens {
			t.Errorf("%s: name %q, input %v, window %d, output %d", ref, m.Name, m.Input, m.ContextWindow, m.MaxTokens)
		}
		if found, err := c.Resolve(ref); err != nil || found.Ref() != m.Ref() {
			t.Errorf("%s resolves to %v, %v", ref, found, err)
		}
	}
	if len(c.Defaults()) == 0 || c.AsOf() == "" {
		t.Errorf("%d defaults, as of %q", len(c.Defaults()), c.AsOf())
	}
}

func TestEveryVendorIsThereWithAModelToBeginWith(t *testing.T) {
	c := load(t, "")
	want := map[string]bool{
		"anthropic": true, "openai": true, "google": true, "mistral": true, "xai": true, "groq": true, "deepseek": true,
		"cerebras": true, "amazon-bedrock": true, "google-vertex": true, "azure-openai-responses": true, "openrouter": true,
	}
	for _, m := range c.Models() {
		if len(providers.KeyVariables(m.Provider)) > 0 && !want[m.Provider] {
			t.Errorf("%s has keys and no model to begin with is expected of it", m.Provider)
		}
	}
	for _, m := range c.Defaults() {
		if len(providers.KeyVariables(m.Provider)) == 0 {
			t.Errorf("nobody can tell whether there is a key for the default %s", m.Ref())
		}
		if !want[m.Provider] || m.ContextWindow == 0 || m.MaxTokens == 0 {
			t.Errorf("%s is twice or unexpected, or its limits are unknown: window %d, output %d", m.Ref(), m.ContextWindow,
				m.MaxTokens)
		}
		delete(want, m.Provider)
	}
	for provider := range want {
		t.Errorf("no model of %s is preferred, or it does not resolve", provider)
	}
}

// TestPricesAreThere checks that every model has a price, except for the models listed here, whose price is unknown.
func TestPricesAreThere(t *testing.T) {
	unknown := map[string]bool{"azure-openai-responses": true}
	models := load(t, "").Models()
	if len(models) < 50 {
		t.Fatalf("the catalogue has %d models: this test does not see what it looks for", len(models))
	}
	for _, m := range models {
		if free := m.Cost.Input == 0 || m.Cost.Output == 0; free != unknown[m.Provider] {
			t.Errorf("%s costs %+v", m.Ref(), m.Cost)
		}
		if m.Cost.CacheRead > m.Cost.Input || m.Cost.Input > m.Cost.Output {
			t.Errorf("%s: prices are mixed up: %+v", m.Ref(), m.Cost)
		}
		if m.ContextWindow == 0 || m.MaxTokens == 0 {
			t.Errorf("%s: window %d, output %d", m.Ref(), m.ContextWindow, m.MaxTokens)
		}
	}
}

// TestThinkingLevelsMatchTheVendors compares the levels with those in the vendors' errors and documents. A level that
// the vendor refuses would fail every request of a session that uses it.
func TestThinkingLevelsMatchTheVendors(t *testing.T) {
	c := load(t, "")
	for name, want := range map[string]string{
		"openai/gpt-5.5": "none low medium high xhigh", "openai/gpt-5.4": "none low medium high xhigh",
		"openai/gpt-5.4-mini": "none low medium high xhigh", "openai/gpt-5.2": "none low medium high xhigh",
		"openai/gpt-5.5-pro": "medium high xhigh", "openai/gpt-5.3-codex": "low medium high xhigh",
		"openai/gpt-5.2-codex": "low medium high xhigh", "openai/gpt-5.1": "none low medium high",
		"openai/gpt-5.1-codex": "low medium high", "openai/gpt-5.1-codex-mini": "low medium high",
		"openai/gpt-5": "minimal low medium high", "openai/gpt-5-mini": "minimal low medium high",
		"openai/o3": "low medium high", "openai/o4-mini": "low medium high", "openai/gpt-4.1": "off",
		"azure-openai-responses/gpt-5.4":    "none low medium high xhigh",
		"azure-openai-responses/gpt-5-mini": "minimal low medium high",
		"groq/openai/gpt-oss-120b":          "low medium high", "cerebras/gpt-oss-120b": "low medium high",
		"groq/qwen/qwen3-32b":      "none default",
		"anthropic/claude-fable-5": "minimal low medium high xhigh", "fable": "minimal low medium high xhigh",
		"anthropic/claude-opus-4-8":   "off minimal low medium high xhigh",
		"anthropic/claude-opus-4-6":   "off minimal low medium high max",
		"anthropic/claude-sonnet-4-6": "off minimal low medium high max",
		"anthropic/claude-sonnet-5":   "off minimal low medium high xhigh",
		"anthropic/claude-sonnet-4-5": "off minimal low medium high", "google/gemini-3.1-pro-preview": "LOW HIGH",
		"deepseek/deepseek-v4-pro": "off high max",
	} {
		m, err := c.Resolve(name)
		if err != nil {
			t.Error(err)
			continue
		}
		var got []string
		for _, level := range m.SupportedLevels() {
			got = append(got, m.LevelName(level))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s has the levels %v, want %s", name, got, want)
		}
	}
}

// TestNullLevelIsUnsupported checks that a null level is a value in a model, in a provider's defaults and in the user's
// file.
func TestNullLevelIsUnsupported(t *testing.T) {
	c := load(t, `{"providers": {
		"a": {"defaults": {"api": "openai-completions", "baseUrl": "http://a.test/v1", "reasoning": true,
			"thinkingLevelMap": {"off": null, "low": null}},
			"models": {"one": {"thinkingLevelMap": {"low": "little"}}, "two": {"thinkingLevelMap": {"high": null}}}},
		"openai": {"models": {"gpt-5.4": {"thinkingLevelMap": {"off": null}},
			"gpt-5.2": {"thinkingLevelMap": null, "cost": null}}}}}`)
	for name, want := range map[string]string{
		"a/one": "minimal low medium high", "a/two": "minimal medium",
		"openai/gpt-5.4": "low medium high xhigh", "openai/gpt-5.2": "off minimal low medium high",
	} {
		m, err := c.Resolve(name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, level := range m.SupportedLevels() {
			got = append(got, string(level))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s has the levels %v, want %s", name, got, want)
		}
	}
}

const twoShops = `{"providers": {
	"a": {"defaults": {"api": "openai-completions", "baseUrl": "http://a.test/v1", "contextWindow": 1000},
		"models": {"one": {"aliases": ["uno"], "cost": {"input": 1}}, "both": {}, "x/y": {}}},
	"b": {"models": {"both": {"api": "anthropic-messages", "baseUrl": "http://b.test"}}},
	"here": {"open": true, "keyless": true, "defaults": {"api": "openai-completions", "baseUrl": "http://127.0.0.1:1/v1"}},
	"anthropic": {"models": {"claude-haiku-4-5": {"cost": {"input": 7}}, "claude-opus-4-5": null}}
}}`

func TestNamesResolve(t *testing.T) {
	c := load(t, twoShops)
	for name, want := range map[string]string{
		"a/one": "a/one", "one": "a/one", "uno": "a/one", "a/uno": "a/one", "b/both": "b/both", "a/x/y": "a/x/y",
		"x/y":              "a/x/y",
		"here/anything:7b": "here/anything:7b", "opus": "anthropic/claude-opus-4-8",
		"groq/gpt-oss-120b":                      "groq/openai/gpt-oss-120b",
		"groq/openai/gpt-oss-120b":               "groq/openai/gpt-oss-120b",
		"openrouter/anthropic/claude-sonnet-4.6": "openrouter/anthropic/claude-sonnet-4.6",
	} {
		m, err := c.Resolve(name)
		if err != nil || m.Ref().String() != want {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	for name, want := range map[string]string{
		"gpt-oss-120b":   "is ambiguous: cerebras/gpt-oss-120b, groq/openai/gpt-oss-120b",
		"both":           `model "both" is ambiguous: a/both, b/both`,
		"claude-haiku-9": "did you mean anthropic/claude-haiku-4-5",
		"a/nothing":      `no model "a/nothing"`, "zzz": "see `runner models`",
		"claude-opus-4-5": `no model "claude-opus-4-5"`,
	} {
		if m, err := c.Resolve(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %s", name, m, err, want)
		}
	}
	if _, err := c.Find(schemas.ModelRef{Provider: "nobody", ID: "one"}); err == nil ||
		!strings.Contains(err.Error(), `no provider "nobody"`) {
		t.Errorf("unknown provider: %v", err)
	}
	if !c.Keyless("here") || c.Keyless("a") {
		t.Error("who needs a key is mixed up")
	}
}

func TestTheUsersFileIsMerged(t *testing.T) {
	c := load(t, twoShops)
	m, err := c.Resolve("anthropic/claude-haiku-4-5")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(providers.Rates{Input: 7, Output: 5, CacheRead: 0.1, CacheWrite: 1.25}, m.Cost); d != "" {
		t.Errorf("prices (-want +got):\n%s", d)
	}
	if m, _ := c.Resolve("one"); m == nil || m.ContextWindow != 1000 || m.Cost.Input != 1 ||
		m.BaseURL != "http://a.test/v1" {
		t.Errorf("defaults are missing: %+v", m)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		`{"providers": {"a": {"models": {"m": {"api": "smoke-signals"}}}}}`: "/providers/a/models/m",
		`{"providers": {"a": {"models": {"m": {"contextWindow": -1}}}}}`:    "/providers/a/models/m/contextWindow",
		`{"providers": {"a": {"models": {"m": {"cost": {"inptu": 1}}}}}}`:   "inptu",
		`{"providers": {"a": {"models": {"m": {"api": "openai-completions"}}}}}`: "/providers/a/models/m: no api or no " +
			"baseUrl",
		`{"models": {}}`: "providers",
		`{`:              "unexpected end",
	} {
		if _, err := catalogue.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "models.json")
	if err := os.WriteFile(path, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := catalogue.Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("the file is not named: %v", err)
	}
}
