package pipeline

import (
	"fmt"
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// in returns the tool of a name as the workers of a workspace announce it.
func in(announced []schemas.ToolDefinition, workspace, name string) *schemas.ToolDefinition {
	for i, t := range announced {
		if t.Workspace == workspace && t.Name == name {
			return &announced[i]
		}
	}
	return nil
}

// base adds what the workers of the session's workspace announce, except for the extension tools, which a later layer
// adds. A session that has only the tools of its client gets nothing here.
func base(p schemas.ToolPolicy, announced, _ []schemas.ToolDefinition) (tools []schemas.ToolDefinition,
	_ []schemas.ToolRemoval) {
	for _, t := range announced {
		if !p.ChannelOnly && t.Workspace == p.Workspace && !slices.Contains(schemas.ExtensionTools(), t.Name) {
			tools = append(tools, t)
		}
	}
	return tools, nil
}

// sandbox redirects tools to another workspace. It removes a tool that no worker serves there, which is never
// executed outside.
func sandbox(p schemas.ToolPolicy, announced, tools []schemas.ToolDefinition) (left []schemas.ToolDefinition,
	gone []schemas.ToolRemoval) {
	if p.Sandbox == nil {
		return tools, nil
	}
	for _, t := range tools {
		switch there := in(announced, p.Sandbox.Workspace, t.Name); {
		case !slices.Contains(p.Sandbox.Tools, t.Name):
			left = append(left, t)
		case there != nil:
			left = append(left, *there)
		default:
			gone = append(gone, schemas.ToolRemoval{Name: t.Name,
				Reason: fmt.Sprintf("no worker serves it in workspace %s, where the profile has it executed", p.Sandbox.Workspace)})
		}
	}
	return left, gone
}

// extension adds the runner's extension tools.
func extension(p schemas.ToolPolicy, announced, tools []schemas.ToolDefinition) ([]schemas.ToolDefinition,
	[]schemas.ToolRemoval) {
	tools = slices.Clone(tools)
	for _, name := range schemas.ExtensionTools() {
		if t := in(announced, "", name); t != nil && !p.ChannelOnly && slices.Contains(p.Extensions, name) {
			tools = append(tools, *t)
		}
	}
	return tools, nil
}

// channel adds the tools of the client that the session is bound to. Calls of them go to that client alone. They
// replace no tool that the session already has. The sender of a prompt names the client; so a workspace whose workers
// do not announce themselves as a channel contributes nothing: its tools are for sessions that work there.
func channel(p schemas.ToolPolicy, announced, tools []schemas.ToolDefinition) (_ []schemas.ToolDefinition,
	gone []schemas.ToolRemoval) {
	if p.Channel == "" || p.Channel == p.Workspace && !p.ChannelOnly {
		return tools, nil
	}
	tools = slices.Clone(tools)
	for _, t := range announced {
		switch {
		case t.Workspace != p.Channel:
		case !t.Channel:
			gone = append(gone, schemas.ToolRemoval{Name: t.Name,
				Reason: "its worker does not announce it as the tool of a channel"})
		case named(tools, t.Name) != nil:
			gone = append(gone, schemas.ToolRemoval{Name: t.Name,
				Reason: "the session has a tool of that name already, which the client's does not replace"})
		default:
			tools = append(tools, t)
		}
	}
	return tools, gone
}

// policy removes what the session must not have, and sorts the rest into the chosen order.
func policy(p schemas.ToolPolicy, _, tools []schemas.ToolDefinition) (left []schemas.ToolDefinition,
	gone []schemas.ToolRemoval) {
	for _, t := range tools {
		if reason := refused(p, t); reason != "" {
			gone = append(gone, schemas.ToolRemoval{Name: t.Name, Reason: reason})
		} else {
			left = append(left, t)
		}
	}
	if p.Chosen != nil {
		slices.SortStableFunc(left, func(a, b schemas.ToolDefinition) int {
			return slices.Index(p.Chosen, a.Name) - slices.Index(p.Chosen, b.Name)
		})
	}
	return left, gone
}

func refused(p schemas.ToolPolicy, t schemas.ToolDefinition) string {
	if p.Allowed != nil && !slices.Contains(p.Allowed, t.Name) {
		return "the profile does not allow it"
	}
	if p.Chosen != nil && !slices.Contains(p.Chosen, t.Name) {
		return "set_tools has not chosen it"
	}
	for _, scope := range t.Scopes {
		if !slices.Contains(p.Scopes, scope) && !slices.Contains(p.Scopes, "*") {
			return fmt.Sprintf("the session is not granted scope %s", scope)
		}
	}
	return ""
}

// bounded makes sure that every call ends without its worker's help: a tool without a time limit gets the runner's.
// The driver and the workers do the rest of aborting: a call that has not started is answered with "Operation
// aborted", a running one is cancelled.
func bounded(p schemas.ToolPolicy, _, tools []schemas.ToolDefinition) ([]schemas.ToolDefinition,
	[]schemas.ToolRemoval) {
	if p.TimeoutMs <= 0 {
		return tools, nil
	}
	tools = slices.Clone(tools)
	for i := range tools {
		if tools[i].TimeoutMs == 0 {
			tools[i].TimeoutMs = p.TimeoutMs
		}
	}
	return tools, nil
}
