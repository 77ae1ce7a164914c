package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/prompt"
	"github.com/loopbus/loopbus/schemas"
)

// readTool is the tool that a model reads the files of skills with.
const readTool = "read"

// showResources puts what the workspace has for prompts into the system prompt of a run, unless the profile leaves it
// out.
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

// expand returns what a text stands for in the session's workspace, and the file that it came from.
func (h *Host) expand(ctx context.Context, session string, set loop.Settings, text string) (
	expanded string, sources []schemas.PromptSource, err error,
) {
	config := h.o.Defaults
	_, p, err := h.profileOf(ctx, session, set)
	if err != nil {
		return text, nil, err
	}
	follow(&config, p)
	choose(&config, set)
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
