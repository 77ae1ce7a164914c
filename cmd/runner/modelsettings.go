package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/catalogue"
	"github.com/loopbus/loopbus/providers/keys"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/bash"
)

// modelSettings select models and configure how they are called.
type modelSettings struct {
	Model           string   `brief:"" help:"Use this model: provider/id, alias, bus/ID, rehearsal or scripted."`
	Fallbacks       []string `brief:"" help:"Try these models in order if the model keeps failing."`
	SummaryModel    string   `help:"Summarize long contexts with this model (default the run's model)."`
	Thinking        string   `default:"off" brief:"" help:"Set thinking to off, minimal, low, medium, high or xhigh."`
	Script          string   `placeholder:"FILE" help:"Play this file as the model named scripted."`
	ThinkingBudgets []string `help:"Set thinking tokens by level, such as low=2048,high=16384."`
	Temperature     string   `placeholder:"N" help:"Set the temperature, 0 to 2 (default the model's)."`
	MaxOutput       int      `help:"Limit the tokens of a reply; 0 for the model's own limit."`
	CacheRetention  string   `default:"short" help:"Set how long vendors cache prompts: none, short or long."`
	Models          string   `placeholder:"FILE" help:"Add the models of this file to the built-in catalogue."`
	APIKey          []string `name:"api-key" secret:"" help:"Use these API keys, as openai=KEY; prefer LOOPBUS_API_KEY."`
	Keys            string   `placeholder:"FILE" help:"Read API keys from a JSON file of providers and keys."`
	KeyCommand      string   `placeholder:"PROGRAM" help:"Run this program with a provider's name to get its API key."`
	KeyCommandEnv   []string `help:"Pass these variables to the key command too; a final * matches any suffix."`
	KeyService      bool     `help:"Request API keys from the key service on the bus first."`
	ServeModels     bool     `help:"Serve model calls of other runners (bus/ID) with this runner's keys."`
	Concurrency     int      `name:"provider-concurrency" help:"Limit concurrent requests to a provider; 0 for no limit."`
	PerMinute       int      `name:"provider-rpm" help:"Limit requests per minute to a provider; 0 for no limit."`

	played          *scripted.Model // the script, once loaded
	catalogue       *catalogue.Catalogue
	fixed           keys.Fixed // keys of --api-key
	keys            keys.Chain
	keysOfFile      *keys.File
	degrees         *float64 // temperature, once parsed
	budgets         map[schemas.ThinkingLevel]int64
	chosen          schemas.ModelRef
	chosenFallbacks []schemas.ModelRef
	chosenSummary   *schemas.ModelRef
	getenv          func(string) string
	environ         []string
	chosenBecause   string // explains the model if none was requested
}

// Check loads the files and resolves the requested models.
func (m *modelSettings) Check(c *cli.Call) []error {
	m.environ = c.IO.Environ
	return m.resolve(c.IO.Getenv)
}

// resolve loads the files and resolves the requested models.
func (m *modelSettings) resolve(getenv func(string) string) (errs []error) {
	fail := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
	}
	m.getenv = getenv
	var err error
	m.catalogue, err = catalogue.Load(m.Models)
	fail("--models", err)
	fail("--api-key", m.readKeys())
	fail("--keys", m.openKeys())
	fail("--temperature", m.readTemperature())
	fail("--thinking-budgets", m.readBudgets())
	if !slices.Contains([]string{"none", "short", "long"}, m.CacheRetention) {
		fail("--cache-retention", fmt.Errorf("%q is not none, short or long", m.CacheRetention))
	}
	if levels := []string{"off", "minimal", "low", "medium", "high", "xhigh"}; !slices.Contains(levels, m.Thinking) {
		fail("--thinking", fmt.Errorf("%q is not one of %s", m.Thinking, strings.Join(levels, ", ")))
	}
	errs = append(errs, m.readScript()...)
	if m.catalogue == nil {
		return errs
	}
	m.chosen, err = m.find(m.Model)
	fail("--model", err)
	for _, name := range m.Fallbacks {
		ref, err := m.find(name)
		fail("--fallbacks", err)
		m.chosenFallbacks = append(m.chosenFallbacks, ref)
	}
	if m.SummaryModel != "" {
		ref, err := m.find(m.SummaryModel)
		fail("--summary-model", err)
		m.chosenSummary = &ref
	}
	return errs
}

// find resolves the name of a model. An empty name selects the default model of the first provider with a key.
func (m *modelSettings) find(name string) (schemas.ModelRef, error) {
	switch name {
	case "":
		return m.byKeys(), nil
	case modelRehearsal, modelScripted:
		return local(name), nil
	}
	if id, ok := strings.CutPrefix(name, models.Provider+"/"); ok && id != "" {
		return schemas.ModelRef{API: models.Provider, Provider: models.Provider, ID: id}, nil
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
	m.chosenBecause = "No API key in the environment (" + m.keyVariables() + "): using the model rehearsal, which needs " +
		"no key and answers by fixed rules. Set one of these variables, or choose a model with --model."
	return local(modelRehearsal)
}

// keyVariables lists the variables with which a vendor's model would be the default.
func (m *modelSettings) keyVariables() string {
	var names []string
	for _, d := range m.catalogue.Defaults() {
		names = append(names, providers.KeyVariables(d.Provider)[:min(1, len(providers.KeyVariables(d.Provider)))]...)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// lacksKey returns the name of the variable for the API key of a model's provider if no key is configured. It returns
// "" if there is a key, or if only the key command or the key service can tell.
func (m *modelSettings) lacksKey(ref schemas.ModelRef) string {
	variables := providers.KeyVariables(ref.Provider)
	if m.KeyService || m.KeyCommand != "" || len(variables) == 0 || m.hasKey(ref.Provider) {
		return ""
	}
	return variables[0]
}

// readKeys parses --api-key. Its errors contain no part of a key.
func (m *modelSettings) readKeys() error {
	m.fixed = keys.Fixed{}
	for i, pair := range m.APIKey {
		provider, key, ok := strings.Cut(pair, "=")
		if !ok || provider == "" || key == "" || strings.ContainsAny(provider+key, " \t\r\n") {
			return fmt.Errorf("item %d is not of the form PROVIDER=KEY, such as openai=KEY", i+1)
		}
		m.fixed[provider] = key
	}
	return nil
}

func (m *modelSettings) openKeys() error {
	if m.KeyCommand != "" {
		environ := bash.AllowedEnv(m.environ, m.KeyCommandEnv)
		m.keys = append(m.keys, keys.NewCommand(environ, strings.Fields(m.KeyCommand)...))
	}
	if m.Keys != "" {
		f, err := keys.OpenFile(m.Keys)
		if err != nil {
			return err
		}
		m.keys, m.keysOfFile = append(m.keys, f), f
	}
	m.keys = append(m.keys, keys.Env(m.getenv))
	return nil
}

func (m *modelSettings) readTemperature() error {
	if m.Temperature == "" {
		return nil
	}
	t, err := strconv.ParseFloat(m.Temperature, 64)
	if err != nil || t < 0 || t > 2 {
		return fmt.Errorf("%q is not a number between 0 and 2", m.Temperature)
	}
	m.degrees = &t
	return nil
}

func (m *modelSettings) readBudgets() error {
	for _, pair := range m.ThinkingBudgets {
		level, tokens, _ := strings.Cut(pair, "=")
		n, err := strconv.ParseInt(tokens, 10, 64)
		if err != nil || n < 0 || !slices.Contains([]string{"minimal", "low", "medium", "high", "xhigh"}, level) {
			return fmt.Errorf("%q is not of the form LEVEL=TOKENS, such as high=16384", pair)
		}
		if m.budgets == nil {
			m.budgets = map[schemas.ThinkingLevel]int64{}
		}
		m.budgets[schemas.ThinkingLevel(level)] = n
	}
	return nil
}

func (m *modelSettings) readScript() (errs []error) {
	if m.Model == modelScripted && m.Script == "" {
		errs = append(errs, errors.New("--model scripted: needs --script FILE"))
	}
	if m.Script != "" && m.Model != modelScripted && !m.ServeModels {
		errs = append(errs, errors.New("--script: needs --model scripted or --serve-models"))
	}
	if m.Script == "" {
		return errs
	}
	var err error
	if m.played, err = scripted.Load(m.Script); err != nil {
		errs = append(errs, fmt.Errorf("--script: %w", err))
	}
	return errs
}
