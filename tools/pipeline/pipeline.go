// Package pipeline selects the tools of a session, in seven layers, once per run. Each layer is a named function.
// What it did is recorded with the tools, so that everybody can see why a session has a tool or lacks it
// (docs/tools.md).
package pipeline

import (
	"encoding/json"
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// A Layer is one step. Apply returns the tools that remain, in the order in which a model receives them, and the
// reason for each tool that it removed. announced is everything that workers announce. Apply modifies neither
// argument.
type Layer struct {
	Name  string
	Apply func(p schemas.ToolPolicy, announced, tools []schemas.ToolDefinition) ([]schemas.ToolDefinition,
		[]schemas.ToolRemoval)
}

// layers returns the seven layers in order.
func layers() []Layer {
	return []Layer{
		{"base", base}, {"sandbox", sandbox}, {"extension", extension}, {"channel", channel}, {"policy", policy},
		{"schema", normalised}, {"abort", bounded},
	}
}

// Build applies all layers and returns the session's tools and what each layer did. It retains nothing of its
// arguments except what the returned tools share with announced.
func Build(p schemas.ToolPolicy, announced []schemas.ToolDefinition) ([]schemas.ToolDefinition, []schemas.ToolLayer) {
	var tools []schemas.ToolDefinition
	var report []schemas.ToolLayer
	for _, layer := range layers() {
		next, removed := layer.Apply(p, announced, tools)
		did := schemas.ToolLayer{Name: layer.Name, Removed: removed}
		for _, tool := range next {
			switch was := named(tools, tool.Name); {
			case was == nil:
				did.Added = append(did.Added, tool.Name)
			case !same(*was, tool):
				did.Changed = append(did.Changed, tool.Name)
			}
		}
		tools, report = next, append(report, did)
	}
	return tools, report
}

func named(tools []schemas.ToolDefinition, name string) *schemas.ToolDefinition {
	if i := slices.IndexFunc(tools, func(t schemas.ToolDefinition) bool { return t.Name == name }); i >= 0 {
		return &tools[i]
	}
	return nil
}

func same(a, b schemas.ToolDefinition) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && slices.Equal(x, y)
}
