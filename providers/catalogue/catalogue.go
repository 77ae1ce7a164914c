package catalogue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// Catalogue is an immutable set of models that may be shared.
type Catalogue struct {
	asOf      string
	preferred []string
	providers map[string]provider
	models    []*providers.Model // by provider and id
	byName    map[string][]*providers.Model
}

func (f file) catalogue() (*Catalogue, error) {
	c := &Catalogue{asOf: f.AsOf, preferred: f.Preferred, providers: f.Providers, byName: map[string][]*providers.Model{}}
	for id, p := range f.Providers {
		for modelID, e := range p.Models {
			m, err := p.model(modelID, id, e.raw)
			if err != nil {
				return nil, fmt.Errorf("catalogue: %w", err)
			}
			c.models = append(c.models, m)
			for _, name := range append([]string{modelID}, e.Aliases...) {
				c.byName[name] = append(c.byName[name], m)
			}
		}
	}
	order := func(a, b *providers.Model) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.ID, b.ID))
	}
	slices.SortFunc(c.models, order)
	for _, list := range c.byName {
		slices.SortFunc(list, order)
	}
	return c, nil
}

// AsOf returns the date of the built-in figures.
func (c *Catalogue) AsOf() string { return c.asOf }

// Models returns all models ordered by provider and id. The caller owns the slice; the models are shared.
func (c *Catalogue) Models() []*providers.Model { return slices.Clone(c.models) }

// Providers returns the ids of all providers, sorted.
func (c *Catalogue) Providers() []string { return slices.Sorted(maps.Keys(c.providers)) }

// Open returns the sorted ids of the providers that also serve models that are not listed.
func (c *Catalogue) Open() (ids []string) {
	for _, id := range c.Providers() {
		if c.providers[id].Open {
			ids = append(ids, id)
		}
	}
	return ids
}

// Keyless reports whether the provider needs no key.
func (c *Catalogue) Keyless(provider string) bool { return c.providers[provider].Keyless }

// Resolve finds a model by provider/id, by an id or alias that only one provider has, or by provider and alias. The
// error lists the candidates if there are several, and similar names if there is none.
func (c *Catalogue) Resolve(name string) (*providers.Model, error) {
	if provider, id, ok := strings.Cut(name, "/"); ok {
		if _, known := c.providers[provider]; known {
			return c.Find(schemas.ModelRef{Provider: provider, ID: id})
		}
	}
	switch found := c.byName[name]; len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, c.unknown(name)
	default:
		return nil, fmt.Errorf("model %q is ambiguous: %s", name, strings.Join(refs(found), ", "))
	}
}

// Find finds the model of a reference. Without a provider it works like [Catalogue.Resolve].
func (c *Catalogue) Find(ref schemas.ModelRef) (*providers.Model, error) {
	if ref.Provider == "" {
		return c.Resolve(ref.ID)
	}
	p, ok := c.providers[ref.Provider]
	if !ok {
		return nil, fmt.Errorf("no provider %q: there are %s", ref.Provider, strings.Join(c.Providers(), ", "))
	}
	for _, m := range c.byName[ref.ID] {
		if m.Provider == ref.Provider {
			return m, nil
		}
	}
	if p.Open && ref.ID != "" {
		return p.model(ref.ID, ref.Provider, nil)
	}
	return nil, c.unknown(ref.String())
}

func refs(models []*providers.Model) []string {
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = m.Ref().String()
	}
	return names
}

// maxSuggestions bounds how many names an error suggests.
const maxSuggestions = 5

// unknown suggests the models that share the longest part with the name, those first whose ids begin with it.
func (c *Catalogue) unknown(name string) error {
	_, id, ok := strings.Cut(name, "/")
	if !ok {
		id = name
	}
	for n := len(id); n >= 4; n-- {
		var near, within []string
		for _, m := range c.models {
			if strings.HasPrefix(m.ID, id[:n]) {
				near = append(near, m.Ref().String())
			} else if strings.Contains(m.ID, id[:n]) {
				within = append(within, m.Ref().String())
			}
		}
		if near = append(near, within...); len(near) > 0 {
			return fmt.Errorf("no model %q: did you mean %s?", name, strings.Join(near[:min(len(near), maxSuggestions)], ", "))
		}
	}
	return fmt.Errorf("no model %q: see `runner models`", name)
}

// Defaults returns the default model of each provider, ordered by the preference of providers.
func (c *Catalogue) Defaults() []*providers.Model {
	var list []*providers.Model
	for _, name := range c.preferred {
		if m, err := c.Resolve(name); err == nil {
			list = append(list, m)
		}
	}
	return list
}
