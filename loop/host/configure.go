package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// refuse returns the rejection of a well-formed command that this host cannot carry out, or nil.
func (h *Host) refuse(ctx context.Context, c schemas.Command) *schemas.CommandRejected {
	r := &schemas.CommandRejected{CommandID: c.ID, Kind: c.Data.CommandKind(), InboxPosition: c.InboxPosition}
	switch d := c.Data.(type) {
	case *schemas.SetModel:
		if h.o.CheckModel == nil {
			return nil
		}
		for _, m := range append([]schemas.ModelRef{d.Model}, d.Fallbacks...) {
			if err := h.o.CheckModel(m); err != nil {
				r.Code, r.Reason = schemas.RejectNoModel, err.Error()
				return r
			}
		}
	case *schemas.SetTools:
		defs, err := h.o.Toolbox.Definitions(ctx)
		if err != nil {
			return nil // unknown now: the next run reports it
		}
		for _, name := range d.Tools {
			if !slices.ContainsFunc(defs, func(t schemas.ToolDefinition) bool { return t.Name == name }) {
				r.Code, r.Reason = schemas.RejectNoTool, fmt.Sprintf("no worker serves tool %q", name)
				return r
			}
		}
	case *schemas.Navigate:
		return h.refuseTarget(ctx, c, d.TargetID)
	case *schemas.Label:
		return h.refuseTarget(ctx, c, d.TargetID)
	case *schemas.SetProfile:
		if _, err := h.profile(ctx, d.Profile); errors.Is(err, ErrNoProfile) {
			r.Code, r.Reason = schemas.RejectNoProfile, err.Error()
			return r
		}
	}
	return nil
}

// profile returns the profile of that name, and an empty one for the empty name.
func (h *Host) profile(ctx context.Context, name string) (schemas.Profile, error) {
	if name == "" {
		return schemas.Profile{}, nil
	}
	if h.o.Profiles == nil {
		return schemas.Profile{}, fmt.Errorf("profile %s: %w", name, ErrNoProfile)
	}
	return h.o.Profiles.Profile(ctx, name)
}

// profileOf returns the profile that a session follows.
func (h *Host) profileOf(ctx context.Context, session string, set loop.Settings) (
	name string, p schemas.Profile, err error,
) {
	name = cmp.Or(set.Profile, h.o.Profile)
	if p, err = h.profile(ctx, name); err != nil {
		err = fmt.Errorf("profile of session %s: %w", session, err)
	}
	return name, p, err
}

// inputHooks names the services to ask about an input of the session, or what else happens without a run. If the
// profile cannot be read, only the runner's own services are asked: what no service answers for passes.
func (h *Host) inputHooks(ctx context.Context, session string, set loop.Settings) []schemas.HookRef {
	_, p, err := h.profileOf(ctx, session, set)
	if err != nil {
		h.o.Logger.Warn("services of a profile are not asked", "session", session, "err", err)
	}
	return hooks(h.o.Defaults, p)
}

func hooks(config schemas.RunConfig, p schemas.Profile) []schemas.HookRef {
	return slices.Concat(config.Hooks, p.Hooks)
}

// configure returns the configuration of a run: the runner's defaults, overridden by the profile, overridden by the
// session's settings, and the tools that are announced. A profile that cannot be read fails the run, because the
// profile may be what limits the session.
func (h *Host) configure(ctx context.Context, session string, set loop.Settings) (schemas.RunConfig, error) {
	config, p, err := h.settled(ctx, session, set)
	if err != nil {
		return config, err
	}
	config.ContextWindow = h.window(config)
	if set.Channel != "" && h.o.CatchUp != nil {
		if err := h.o.CatchUp(ctx); err != nil {
			h.o.Logger.Warn("the newest tools of a channel may be missing", "session", session, "channel", set.Channel,
				"err", err)
		}
	}
	announced, err := h.o.Toolbox.Definitions(ctx)
	if err != nil {
		return config, fmt.Errorf("tools of session %s: %w", session, err)
	}
	if h.o.Pipeline == nil {
		config.Tools = chosen(inWorkspace(announced, config.Workspace), set)
	} else {
		config.Tools, config.Layers = h.o.Pipeline(h.toolPolicy(config, p, set), announced)
	}
	return config, h.showResources(ctx, session, &config, p)
}

// settled returns the configuration that defaults, profile and settings amount to, without its tools, and the profile.
func (h *Host) settled(ctx context.Context, session string, set loop.Settings) (
	config schemas.RunConfig, p schemas.Profile, err error,
) {
	config = h.o.Defaults
	config.Profile, p, err = h.profileOf(ctx, session, set)
	if err == nil {
		applyProfile(&config, p)
		applySettings(&config, set)
	}
	return config, p, err
}

// window returns the smallest known context window of a run's models: what fits that one fits all of them.
func (h *Host) window(config schemas.RunConfig) (least int64) {
	if h.o.Window == nil {
		return config.ContextWindow
	}
	for _, m := range append([]schemas.ModelRef{config.Model}, config.Fallbacks...) {
		if n := h.o.Window(m); n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// applyProfile overrides a configuration with what a profile sets.
func applyProfile(config *schemas.RunConfig, p schemas.Profile) {
	override(&config.Model, p.Model)
	if p.Fallbacks != nil {
		config.Fallbacks = p.Fallbacks
	}
	override(&config.SystemPrompt, p.SystemPrompt)
	config.ThinkingLevel = cmp.Or(p.ThinkingLevel, config.ThinkingLevel)
	config.ToolExecution = cmp.Or(p.ToolExecution, config.ToolExecution)
	config.Workspace = cmp.Or(p.Workspace, config.Workspace)
	if p.Limits != nil {
		config.Limits = p.Limits.Over(config.Limits)
	}
	override(&config.Budget, p.Budget)
	override(&config.Approval, p.Approval)
	override(&config.Compaction, p.Compaction)
	override(&config.Subagents, p.Subagents)
	config.Hooks = hooks(*config, p)
}

// override replaces *value by *by, if by is not nil.
func override[T any](value, by *T) {
	if by != nil {
		*value = *by
	}
}

// applySettings overrides a configuration with the session's own settings.
func applySettings(config *schemas.RunConfig, set loop.Settings) {
	override(&config.Model, set.Model)
	if set.Fallbacks != nil {
		config.Fallbacks = set.Fallbacks
	}
	override(&config.SystemPrompt, set.SystemPrompt)
	config.ThinkingLevel = cmp.Or(set.ThinkingLevel, config.ThinkingLevel)
	config.ToolExecution = cmp.Or(set.ToolExecution, config.ToolExecution)
	override(&config.Workspace, set.Workspace)
	limitByShare(&config.Limits, set)
}

// limitByShare lowers the limits of a sub-agent to its share of the parent's budget.
func limitByShare(l *schemas.Limits, set loop.Settings) {
	if n := set.MaxTokens; n > 0 && (l.SessionMaxTokens == 0 || n < l.SessionMaxTokens) {
		l.SessionMaxTokens = n
	}
	if n := set.MaxCost; n > 0 && (l.SessionMaxCost == 0 || n < l.SessionMaxCost) {
		l.SessionMaxCost = n
	}
}

// toolPolicy returns the policy that the pipeline selects a run's tools by.
func (h *Host) toolPolicy(config schemas.RunConfig, p schemas.Profile, set loop.Settings) schemas.ToolPolicy {
	policy := h.o.Policy
	policy.API, policy.Provider = config.Model.API, config.Model.Provider
	policy.Workspace, policy.Channel, policy.ChannelOnly = config.Workspace, set.Channel, set.ChannelOnly
	if p.Sandbox != nil {
		policy.Sandbox = p.Sandbox
	}
	if p.Extensions != nil {
		policy.Extensions = p.Extensions
	}
	if p.Tools != nil {
		policy.Allowed = p.Tools
	}
	if p.Scopes != nil {
		policy.Scopes = p.Scopes
	}
	if set.ToolsSet && set.Tools != nil {
		policy.Chosen = set.Tools
	}
	return policy
}

// inWorkspace returns the definitions of a workspace's tools, in their order; the empty name selects the tools without
// a workspace.
func inWorkspace(defs []schemas.ToolDefinition, workspace string) []schemas.ToolDefinition {
	var out []schemas.ToolDefinition
	for _, d := range defs {
		if d.Workspace == workspace {
			out = append(out, d)
		}
	}
	return out
}

func chosen(defs []schemas.ToolDefinition, set loop.Settings) []schemas.ToolDefinition {
	if !set.ToolsSet || set.Tools == nil {
		return defs
	}
	var out []schemas.ToolDefinition
	for _, name := range set.Tools {
		if i := slices.IndexFunc(defs, func(t schemas.ToolDefinition) bool { return t.Name == name }); i >= 0 {
			out = append(out, defs[i])
		}
	}
	return out
}
