package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/cmd/internal/config"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/extension"
)

// policy is what bounds sessions beside budgets: who is asked, and which tools there are.
type policy struct {
	profile         string
	hooks           []string
	approve         []string
	approvalTimeout time.Duration
	scopes          []string
	extensions      []string
	toolTimeout     time.Duration

	hookRefs []schemas.HookRef
}

func (p *policy) define(s *config.Set) {
	s.String(&p.profile, "profile", "", "profile of sessions that follow none (see runner profiles)")
	s.List(&p.hooks, "hook", "", "services that are asked, in this order: HOOK[.SERVICE][=TIME LIMIT], such as beforeToolCall.policy=2s")
	s.List(&p.approve, "approve", "", "tools whose calls need somebody's approval, * for all")
	s.Duration(&p.approvalTimeout, "approval-timeout", 0, "how long an approval is waited for before the call is denied, 0 for ever")
	s.List(&p.scopes, "scopes", "", "scopes that sessions without a profile are granted, * for all")
	s.List(&p.extensions, "extension-tools", strings.Join(schemas.ExtensionTools(), ","), "tools with which a model acts on its own session")
	s.Duration(&p.toolTimeout, "tool-timeout", 0, "time limit of calls of tools that set none, 0 for no limit")
}

func (p *policy) check() (errs []error) {
	for _, text := range p.hooks {
		ref, err := schemas.ParseHookRef(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--hook: %w", err))
		}
		p.hookRefs = append(p.hookRefs, ref)
	}
	for _, name := range p.extensions {
		if !slices.Contains(schemas.ExtensionTools(), name) {
			errs = append(errs, fmt.Errorf("--extension-tools: %q is none of %s", name, strings.Join(schemas.ExtensionTools(), ", ")))
		}
	}
	if p.profile != "" {
		if err := schemas.CheckToken("profile", p.profile); err != nil {
			errs = append(errs, fmt.Errorf("--profile: %w", err))
		}
	}
	if p.approvalTimeout < 0 || p.toolTimeout < 0 {
		errs = append(errs, errors.New("--approval-timeout, --tool-timeout: is negative"))
	}
	return errs
}

func (p *policy) approval() schemas.ApprovalPolicy {
	return schemas.ApprovalPolicy{Tools: p.approve, TimeoutMs: p.approvalTimeout.Milliseconds()}
}

// tools is what sessions' tools are put together by where their profile says nothing.
func (p *policy) tools() schemas.ToolPolicy {
	return schemas.ToolPolicy{Extensions: p.extensions, Scopes: p.scopes, TimeoutMs: p.toolTimeout.Milliseconds()}
}

// serveExtensions serves the tools with which a model acts on its own session.
func (s *service) serveExtensions(ctx context.Context) error {
	set, err := extension.Tools(s.conn.Send)
	if err != nil {
		return err
	}
	return toolserve.Serve(ctx, s.conn, toolserve.Options{
		ID: s.o.id + "-x", Concurrency: s.o.concurrency, StopTimeout: s.o.stopTimeout, Logger: s.log,
	}, set)
}
