package rerun

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/schemas"
)

// Model resolves the name of a model that a runner has listed: provider/id, or an id that only one provider has. A
// model that is not listed, of a provider that is listed, is left to the runner, which may know more models than it
// lists; so are the models that other runners serve.
func Model(name string, listed []schemas.ModelInfo) (schemas.ModelRef, error) {
	var found []schemas.ModelRef
	for _, m := range listed {
		if m.Ref().String() == name {
			return m.Ref(), nil
		}
		if m.ID == name {
			found = append(found, m.Ref())
		}
	}
	provider, id, qualified := strings.Cut(name, "/")
	of := slices.IndexFunc(listed, func(m schemas.ModelInfo) bool { return m.Provider == provider })
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return schemas.ModelRef{}, fmt.Errorf("model %q is ambiguous: %s", name, names(found))
	case qualified && id != "" && of >= 0:
		return schemas.ModelRef{API: listed[of].API, Provider: provider, ID: id}, nil
	case qualified && id != "" && provider == models.Provider:
		return schemas.ModelRef{API: provider, Provider: provider, ID: id}, nil
	}
	return schemas.ModelRef{}, fmt.Errorf("the runners know no model %q: runner models lists those there are", name)
}

func names(refs []schemas.ModelRef) string {
	var all []string
	for _, ref := range refs {
		all = append(all, ref.String())
	}
	return strings.Join(all, ", ")
}
