package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// listed is a model as `runner models --json` prints it.
type listed struct {
	*providers.Model
	Key bool `json:"key"` // a key is configured, or none is needed
}

// modelsCommand is `runner models`.
type modelsCommand struct {
	Config cli.Config    `embed:""`
	Models modelSettings `embed:"" group:"models"`
	JSON   bool          `name:"json" help:"Print one JSON object per line."`
}

// Run prints the catalogue as a table or as JSON. It does not check whether keys are valid.
func (c *modelsCommand) Run(_ context.Context, io *cli.IO) error {
	return c.Models.list(c.JSON, io.Stdout)
}

func (m *modelSettings) list(asJSON bool, out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	lines := json.NewEncoder(cli.JSONOut(out, cli.IsTerminal(out)))
	if !asJSON {
		fmt.Fprintf(table, "MODEL\tAPI\tCONTEXT\tOUTPUT\tIN $/M\tOUT $/M\tTHINKS\tSEES\tKEY\n")
	}
	for _, model := range m.catalogue.Models() {
		l := listed{Model: model, Key: m.hasKey(model.Provider)}
		if asJSON {
			if err := lines.Encode(l); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%g\t%g\t%s\t%s\t%s\n", model.Ref(), model.API, model.ContextWindow,
			model.MaxTokens,
			model.Cost.Input, model.Cost.Output, levels(model), mark(model.SeesImages()), mark(l.Key))
	}
	if asJSON {
		return nil
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nPrices and limits as of %s; 0 means unknown. These providers accept any of their model "+
		"names: %s.\n",
		m.catalogue.AsOf(), join(m.catalogue.Open()))
	return err
}

// infos returns the models as queries list them: those of the catalogue, and those without a vendor.
func (m *modelSettings) infos() []schemas.ModelInfo {
	list := []schemas.ModelInfo{{API: modelRehearsal, Provider: modelRehearsal, ID: modelRehearsal, Key: true}}
	for _, model := range m.catalogue.Models() {
		info := schemas.ModelInfo{
			API: model.API, Provider: model.Provider, ID: model.ID, Name: model.Name, ContextWindow: model.ContextWindow,
			MaxTokens: model.MaxTokens, Images: model.SeesImages(), Rates: schemas.ModelRates(model.Cost),
			Key: m.hasKey(model.Provider),
		}
		if model.Reasoning {
			info.ThinkingLevels = model.SupportedLevels()
		}
		list = append(list, info)
	}
	return list
}

// hasKey reports whether a key is configured, as far as that is known without running the key command.
func (m *modelSettings) hasKey(provider string) bool {
	if m.catalogue.Keyless(provider) || m.fixed[provider] != "" || providers.KeyFromEnv(provider, m.getenv) != "" {
		return true
	}
	return m.Keys != "" && m.keysOfFile != nil && m.keysOfFile.Has(provider)
}

// levels lists the thinking levels of a model; "-" if it has only one.
func levels(m *providers.Model) string {
	var list []string
	for _, level := range m.SupportedLevels() {
		list = append(list, string(level))
	}
	if len(list) < 2 {
		return "-"
	}
	return strings.Join(list, ",")
}

func mark(yes bool) string {
	if yes {
		return "yes"
	}
	return "-"
}

func join(list []string) string {
	text := ""
	for i, s := range list {
		if i > 0 {
			text += ", "
		}
		text += s + "/…"
	}
	return text
}
