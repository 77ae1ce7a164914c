package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/prompt"
	"github.com/loopbus/loopbus/schemas"
)

// readTool is the tool that models read the files of skills with.
const readTool = "read"

// showResources adds the resources of the workspace to the system prompt of a run, unless the profile excludes them.
func (h *Host) showResources(ctx context.Context, session string, config *schemas.RunConfig, p schemas.Profile) error {
	found, err := h.resources(ctx, session, config.Workspace, p)
	if err != nil {
		return err
	}
	canRead := slices.ContainsFunc(config.Tools, func(t schemas.ToolDefinition) bool { return t.Name == readTool })
	config.SystemPrompt, config.Sources = prompt.System(config.SystemPrompt, found, canRead, h.o.Clock.Now())
	return nil
}

func (h *Host) resources(ctx context.Context, session, workspace string, p schemas.Profile) (
	found schemas.Resources, err error,
) {
	if h.o.Resources == nil || p.Resources != nil && !*p.Resources {
		return found, nil
	}
	if found, err = h.o.Resources.Resources(ctx, workspace); err != nil {
		err = fmt.Errorf("resources of session %s: %w", session, err)
	}
	return found, err
}

// expand expands a text by the resources of the session's workspace, and returns the file that the expansion came from.
func (h *Host) expand(ctx context.Context, session string, set loop.Settings, text string) (
	expanded string, sources []schemas.PromptSource, err error,
) {
	config, p, err := h.settled(ctx, session, set)
	if err != nil {
		return text, nil, err
	}
	found, err := h.resources(ctx, session, config.Workspace, p)
	if err != nil {
		return text, nil, err
	}
	expanded, source, ok := prompt.Expand(text, found)
	if ok {
		sources = []schemas.PromptSource{source}
	}
	return expanded, sources, nil
}
