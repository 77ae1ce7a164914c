package wiring

import (
	"context"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/extension"
)

// withAgent adds the tool that starts sub-agents to the announced tools. No worker needs to announce it; a tool of
// that name announced by a worker is hidden.
type withAgent struct{ host.Toolbox }

var agent = extension.Agent()

// Definitions implements [host.Toolbox].
func (t withAgent) Definitions(ctx context.Context) ([]schemas.ToolDefinition, error) {
	tools, err := t.Toolbox.Definitions(ctx)
	if err != nil {
		return nil, err
	}
	tools = slices.DeleteFunc(slices.Clone(tools), func(d schemas.ToolDefinition) bool { return d.Name == agent.Name })
	at, _ := slices.BinarySearchFunc(tools, agent, func(a, b schemas.ToolDefinition) int {
		if a.Workspace != b.Workspace {
			return strings.Compare(a.Workspace, b.Workspace)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return slices.Insert(tools, at, agent), nil
}
