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

// policy is what bounds sessions in addition to budgets: who is asked, and which tools there are.
type policy struct {
	Hook            []string      `help:"Ask services in this order, such as beforeToolCall.policy=2s."`
	Approve         []string      `brief:"" help:"Ask for approval of calls of these tools, * for all."`
	ApprovalTimeout time.Duration `help:"Deny a call that nobody has approved after this long; 0 never."`
	Scopes          []string      `help:"Grant sessions without a profile these scopes, * for all."`
	ExtensionTools  []string      `default:"${extensions}" help:"Let models act on their session with these tools."`

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
	for _, name := range p.ExtensionTools {
		if !slices.Contains(schemas.ExtensionTools(), name) {
			errs = append(errs, fmt.Errorf("--extension-tools: %q is none of %s", name,
				strings.Join(schemas.ExtensionTools(), ", ")))
		}
	}
	return errs
}

func (p *policy) approval() schemas.ApprovalPolicy {
	return schemas.ApprovalPolicy{Tools: p.Approve, TimeoutMs: p.ApprovalTimeout.Milliseconds()}
}

// tools is what sessions' tools are put together by where their profile says nothing.
func (p *policy) tools(limit time.Duration) schemas.ToolPolicy {
	return schemas.ToolPolicy{Extensions: p.ExtensionTools, Scopes: p.Scopes, TimeoutMs: limit.Milliseconds()}
}

// served are the runner's own tools that are announced and served as others are.
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
