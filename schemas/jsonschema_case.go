package schemas

import (
	"sort"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// memberCase refuses members that differ from a known one only in case. Readers ignore unknown members, but Go's
// decoder takes "WhenBusy" for "whenBusy": a member that no schema has validated would be used.
type memberCase struct{}

// Compile applies to every schema that names members.
func (memberCase) Compile(_ jsonschema.CompilerContext, schema map[string]any) (jsonschema.ExtSchema, error) {
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		return nil, nil
	}
	known := make(knownMembers, 0, len(properties))
	for name := range properties {
		known = append(known, name)
	}
	sort.Strings(known)
	return known, nil
}

// knownMembers are the members that a schema names, sorted.
type knownMembers []string

// Validate reports the first member, by the order of the known ones, that is written in another case.
func (known knownMembers) Validate(ctx jsonschema.ValidationContext, v any) error {
	object, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	for _, want := range known {
		for got := range object {
			if got != want && strings.EqualFold(got, want) {
				return ctx.Error("properties", "member %q must be written in another case: %q", got, want)
			}
		}
	}
	return nil
}
