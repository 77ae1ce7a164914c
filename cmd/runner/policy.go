package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/extension"
)

// policy decides, besides budgets, what sessions may do: which services are asked, and which tools there are.
type policy struct {
	Hook            []string      `help:"Ask these hook services in order, such as beforeToolCall.policy=2s."`
	Approve         []string      `brief:"" help:"Require approval for calls of these tools; * for all."`
	ApprovalTimeout time.Duration `help:"Deny a call that nobody has approved for this long; 0 never."`
	Scopes          []string      `help:"Grant these scopes to sessions without a profile; * for all."`
	ExtensionTools  []string      `default:"${extensions}" help:"Offer models these tools that act on their own session."`

	hookRefs []schemas.HookRef
}

// Check validates the names.
func (p *policy) Check(*cli.Call) (errs []error) {
	for _, text := range p.Hook {
		ref, err := schemas.ParseHookRef(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--hook: %w", err))
		}
		p.hookRefs = append(p.hookRefs, ref)
	}
	for _, name := range p.Approve {
		if name != "*" && schemas.CheckToken("tool", name) != nil {
			errs = append(errs, fmt.Errorf("--approve: no tool has the name %q; write whole names, in the tool's own case, or *",
				name))
		}
	}
	for _, name := range p.ExtensionTools {
		if !slices.Contains(schemas.ExtensionTools(), name) {
			errs = append(errs, fmt.Errorf("--extension-tools: unknown tool %q; there are %s", name,
				strings.Join(schemas.ExtensionTools(), ", ")))
		}
	}
	return errs
}

func (p *policy) approval() schemas.ApprovalPolicy {
	return schemas.ApprovalPolicy{Tools: p.Approve, TimeoutMs: p.ApprovalTimeout.Milliseconds()}
}

// unserved lists the names of --approve that are neither those of announced tools nor of the runner's own, with what
// may have been meant. It is empty if all tools need an approval.
func (p *policy) unserved(announced []schemas.ToolDefinition) (names []string) {
	known := schemas.ExtensionTools()
	for _, def := range announced {
		known = append(known, def.Name)
	}
	for _, name := range p.Approve {
		if name == "*" {
			return nil
		}
		if !slices.Contains(known, name) {
			names = append(names, name+cli.Suggest(name, known))
		}
	}
	return names
}

// checkApprovals warns once about names of --approve that no tool has when the runner is ready.
func (s *service) checkApprovals(ctx context.Context) error {
	select {
	case <-s.Ready():
	case <-ctx.Done():
		return nil
	}
	announced, err := s.Toolbox.Definitions(ctx)
	for _, name := range s.o.Tools.Tools { // they may be announced a moment later
		announced = append(announced, schemas.ToolDefinition{Name: name})
	}
	if names := s.o.Policy.unserved(announced); err == nil && len(names) > 0 { // an error is the end of ctx
		s.log.Warn("--approve names tools that nobody serves now; a name must be exact", "tools", names)
	}
	return nil
}

// tools returns the tool policy of sessions whose profile sets none.
func (p *policy) tools(limit time.Duration) schemas.ToolPolicy {
	return schemas.ToolPolicy{Extensions: p.ExtensionTools, Scopes: p.Scopes, TimeoutMs: limit.Milliseconds()}
}

// served lists the extension tools that the runner serves like a worker; the tool agent is executed by the driver.
func (p *policy) served() []string {
	return slices.DeleteFunc(slices.Clone(p.ExtensionTools), func(name string) bool { return name == schemas.ToolAgent })
}

// serveExtensions serves the tools with which a model acts on its own session.
func (s *service) serveExtensions(ctx context.Context) error {
	c, err := client.New(s.Conn.NATS(), client.Options{Name: s.o.Server.ID, Prefix: s.o.Server.Prefix,
		Dial: s.o.Server.Settings(), RequestTimeout: natsio.AwayTimeout})
	if err != nil {
		return err
	}
	set, err := extension.Tools(c)
	if err != nil {
		return err
	}
	return toolserve.Serve(ctx, s.Conn, toolserve.Options{
		ID: s.o.Server.ID + "-x", Concurrency: s.o.Tools.Concurrency, AckWait: s.o.Tools.AckWait,
		StopTimeout: s.o.Server.StopTimeout, Logger: s.log, Registerer: s.registry, Trace: s.traces.Execute,
	}, set)
}
