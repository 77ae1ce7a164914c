package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/cmd/internal/config"
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/catalogue"
	"github.com/loopbus/loopbus/providers/keys"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// modelSettings say which models there are and how they are asked.
type modelSettings struct {
	model, script, thinking string
	fallbacks               []string
	catalogueFile           string
	keyFile, keyCommand     string
	keyList                 []string
	keyService, serve       bool
	temperature             string
	maxOutput               int
	cacheRetention          string
	thinkingBudgets         []string
	concurrency, perMinute  int
	played                  *scripted.Model // the script, once it has been read
	catalogue               *catalogue.Catalogue
	fixed                   keys.Fixed // of the flag
	keys                    keys.Chain
	keysOfFile              *keys.File
	degrees                 *float64 // temperature, once it has been read
	budgets                 map[schemas.ThinkingLevel]int64
	chosen                  schemas.ModelRef
	chosenFallbacks         []schemas.ModelRef
	getenv                  func(string) string
	chosenBecause           string // where nobody asked for a model
}

func (m *modelSettings) define(s *config.Set) {
	s.String(&m.model, "model", "", "model: provider/id, an id or alias of the catalogue, bus/ and one that another runner serves, rehearsal or scripted (default: by the keys there are, else rehearsal)")
	s.List(&m.fallbacks, "fallbacks", "", "models to ask in this order when the model fails for good")
	s.String(&m.script, "script", "", "file that the model scripted plays")
	s.String(&m.thinking, "thinking", string(schemas.ThinkingOff), "thinking level: off, minimal, low, medium, high, xhigh")
	s.List(&m.thinkingBudgets, "thinking-budgets", "", "tokens for thinking by level, such as low=2048,high=16384")
	s.String(&m.temperature, "temperature", "", "temperature of the replies (default: the model's)")
	s.Int(&m.maxOutput, "max-output", 0, "most tokens of a reply, 0 for the model's usual limit")
	s.String(&m.cacheRetention, "cache-retention", string(providers.CacheShort), "how long vendors keep the beginning of a conversation: none, short, long")
	s.String(&m.catalogueFile, "models", "", "file of models, merged over the built-in catalogue")
	s.List(&m.keyList, "api-key", "", "API keys by provider, such as openai=sk-...; before all other sources. Flags can be read by others of the machine, so rather as LOOPBUS_API_KEY")
	s.String(&m.keyFile, "keys", "", "JSON file of provider and API key, readable by its owner only; before the environment")
	s.String(&m.keyCommand, "key-command", "", "program that writes the API key of the provider it is given; before file and environment")
	s.Bool(&m.keyService, "key-service", false, "ask the key service on the bus for API keys; before key command, file and environment")
	s.Bool(&m.serve, "serve-models", false, "answer the model calls of runners whose model is bus/provider/id, with this runner's keys")
	s.Int(&m.concurrency, "provider-concurrency", 0, "requests at once to each provider, 0 for no limit")
	s.Int(&m.perMinute, "provider-rpm", 0, "requests a minute to each provider, 0 for no limit")
}

// resolve reads the files, and finds the models that are asked for.
func (m *modelSettings) resolve(getenv func(string) string) (errs []error) {
	fail := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
	}
	m.getenv = getenv
	var err error
	m.catalogue, err = catalogue.Load(m.catalogueFile)
	fail("--models", err)
	fail("--api-key", m.readKeys())
	fail("--keys", m.openKeys())
	fail("--temperature", m.readTemperature())
	fail("--thinking-budgets", m.readBudgets())
	if !slices.Contains([]string{"none", "short", "long"}, m.cacheRetention) {
		fail("--cache-retention", fmt.Errorf("%q is not none, short or long", m.cacheRetention))
	}
	if m.maxOutput < 0 || m.concurrency < 0 || m.perMinute < 0 {
		errs = append(errs, errors.New("--max-output, --provider-concurrency and --provider-rpm must not be negative"))
	}
	if levels := []string{"off", "minimal", "low", "medium", "high", "xhigh"}; !slices.Contains(levels, m.thinking) {
		fail("--thinking", fmt.Errorf("%q is not one of %s", m.thinking, strings.Join(levels, ", ")))
	}
	errs = append(errs, m.readScript()...)
	if m.catalogue == nil {
		return errs
	}
	m.chosen, err = m.find(m.model)
	fail("--model", err)
	for _, name := range m.fallbacks {
		ref, err := m.find(name)
		fail("--fallbacks", err)
		m.chosenFallbacks = append(m.chosenFallbacks, ref)
	}
	return errs
}

// find resolves a model's name; without one it is that of the first provider with a key.
func (m *modelSettings) find(name string) (schemas.ModelRef, error) {
	switch name {
	case "":
		return m.byKeys(), nil
	case modelRehearsal, modelScripted:
		return local(name), nil
	}
	if id, ok := strings.CutPrefix(name, bus.ModelProvider+"/"); ok && id != "" {
		return schemas.ModelRef{API: bus.ModelProvider, Provider: bus.ModelProvider, ID: id}, nil
	}
	found, err := m.catalogue.Resolve(name)
	if err != nil {
		return schemas.ModelRef{}, err
	}
	return found.Ref(), nil
}

func (m *modelSettings) byKeys() schemas.ModelRef {
	for _, d := range m.catalogue.Defaults() {
		if m.fixed[d.Provider] != "" {
			m.chosenBecause = "--api-key has a key of " + d.Provider + ": using the model " + d.Ref().String() + "."
			return d.Ref()
		}
		for _, variable := range providers.KeyVariables(d.Provider) {
			if m.getenv(variable) != "" {
				m.chosenBecause = variable + " is set: using the model " + d.Ref().String() + "."
				return d.Ref()
			}
		}
	}
	m.chosenBecause = "No API key in the environment: using the model rehearsal, which needs none and answers by rule."
	return local(modelRehearsal)
}

// readKeys reads the keys of the flag. An error does not say what is in it.
func (m *modelSettings) readKeys() error {
	m.fixed = keys.Fixed{}
	for i, pair := range m.keyList {
		provider, key, ok := strings.Cut(pair, "=")
		if !ok || provider == "" || key == "" || strings.ContainsAny(provider+key, " \t\r\n") {
			return fmt.Errorf("number %d is not a provider and its key, such as openai=KEY", i+1)
		}
		m.fixed[provider] = key
	}
	return nil
}

func (m *modelSettings) openKeys() error {
	if m.keyCommand != "" {
		m.keys = append(m.keys, keys.NewCommand(strings.Fields(m.keyCommand)...))
	}
	if m.keyFile != "" {
		f, err := keys.OpenFile(m.keyFile)
		if err != nil {
			return err
		}
		m.keys, m.keysOfFile = append(m.keys, f), f
	}
	m.keys = append(m.keys, keys.Env(m.getenv))
	return nil
}

func (m *modelSettings) readTemperature() error {
	if m.temperature == "" {
		return nil
	}
	t, err := strconv.ParseFloat(m.temperature, 64)
	if err != nil || t < 0 || t > 2 {
		return fmt.Errorf("%q is not a number from 0 to 2", m.temperature)
	}
	m.degrees = &t
	return nil
}

func (m *modelSettings) readBudgets() error {
	for _, pair := range m.thinkingBudgets {
		level, tokens, _ := strings.Cut(pair, "=")
		n, err := strconv.ParseInt(tokens, 10, 64)
		if err != nil || n < 0 || !slices.Contains([]string{"minimal", "low", "medium", "high", "xhigh"}, level) {
			return fmt.Errorf("%q is not a level and its tokens, such as high=16384", pair)
		}
		if m.budgets == nil {
			m.budgets = map[schemas.ThinkingLevel]int64{}
		}
		m.budgets[schemas.ThinkingLevel(level)] = n
	}
	return nil
}

func (m *modelSettings) readScript() (errs []error) {
	if m.model == modelScripted && m.script == "" {
		errs = append(errs, errors.New("--model scripted: needs --script FILE"))
	}
	if m.script != "" && m.model != modelScripted && !m.serve {
		errs = append(errs, errors.New("--script: goes with --model scripted or --serve-models"))
	}
	if m.script == "" {
		return errs
	}
	var err error
	if m.played, err = scripted.Load(m.script); err != nil {
		errs = append(errs, fmt.Errorf("--script: %w", err))
	}
	return errs
}
