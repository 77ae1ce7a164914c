package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// clientSettings are the settings that apply to a client of the runners: how it connects, what it prints, and what it
// sets for a session by commands.
var clientSettings = []string{
	"nats", "context", "creds", "nkey", "user", "password", "token", "tls-ca", "tls-cert", "tls-key", "prefix",
	"inbox-prefix", "config", "prompt", "attach", "session", "json", "abort-on-exit", "log-level", "log-json",
	"model", "models", "fallbacks", "thinking", "profile", "system-prompt", "workspace",
}

// checkOnce refuses flags that configure a runner if --nats is given: then other runners drive the session.
func checkOnce(call *cli.Call, o *options) (errs []error) {
	if o.Server.embedded() {
		return nil
	}
	for _, name := range call.Settings() {
		if call.ByFlag(name) && !slices.Contains(clientSettings, name) {
			errs = append(errs, fmt.Errorf("--%s: is for the runners at --nats to decide: with --nats this process only "+
				"sends the prompt; set it where the runners are started", name))
		}
	}
	return errs
}

// unused lists the settings of the environment and the file that do not apply to a client.
func unused(call *cli.Call) (names []string) {
	for _, name := range call.Settings() {
		if call.Given(name) && !slices.Contains(clientSettings, name) {
			names = append(names, call.Source(name))
		}
	}
	return names
}

// runRemote sends the prompt to the runners at --nats.
func runRemote(ctx context.Context, call *cli.Call, o *options, once *onceSettings) error {
	if names := unused(call); len(names) > 0 {
		fmt.Fprintf(call.IO.Stderr, "ignored, because the runners at --nats decide: %s\n", strings.Join(names, ", "))
	}
	c, err := o.Server.Client(ctx, "loopbus runner run", o.Observe.Logger(call.IO))
	if err != nil {
		return err
	}
	defer c.Close()
	shot, err := newOneShot(c, call.IO, once)
	if err != nil {
		return err
	}
	if err := setSession(ctx, shot.session, call, o); err != nil {
		return err
	}
	err = shot.run(ctx)
	if ctx.Err() == nil {
		return err
	}
	if once.AbortOnExit {
		return withStatus(ctx, shot.abort(ctx))
	}
	const text = "%s; the run of session %s continues. To follow it: replay show %s --follow --nats %s"
	return withStatus(ctx, fmt.Errorf(text, context.Cause(ctx), once.Session, once.Session, dial.Connected(c.NATS())))
}

// setSession sends the commands for the settings that were given, each after the previous one has taken effect.
func setSession(ctx context.Context, s *client.Session, call *cli.Call, o *options) error {
	var commands []schemas.CommandData
	add := func(name string, data schemas.CommandData) {
		if call.Given(name) {
			commands = append(commands, data)
		}
	}
	add("profile", &schemas.SetProfile{Profile: o.Sessions.Profile})
	if call.Given("model") || call.Given("fallbacks") {
		if !call.Given("model") {
			return cli.UsageError{Err: errors.New("--fallbacks: needs --model when used with --nats")}
		}
		add("model", &schemas.SetModel{Model: o.Models.chosen, Fallbacks: o.Models.chosenFallbacks})
	}
	add("thinking", &schemas.SetThinkingLevel{ThinkingLevel: schemas.ThinkingLevel(o.Models.Thinking)})
	add("system-prompt", &schemas.SetSystemPrompt{SystemPrompt: o.Sessions.SystemPrompt})
	add("workspace", &schemas.SetWorkspace{Workspace: o.Sessions.Workspace})
	for _, data := range commands {
		if err := s.Set(ctx, data); err != nil {
			return err
		}
	}
	return nil
}

// abortTimeout limits how long an aborted run may take to end.
const abortTimeout = 15 * time.Second

// abort aborts the run after an interrupt. It always returns an error, which tells the outcome.
func (s *oneShot) abort(ctx context.Context) error {
	cause := context.Cause(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	if err := s.session.Abort(ctx, cause.Error()); err != nil {
		return fmt.Errorf("%w; abort the run of session %s: %w", cause, s.session.ID(), err)
	}
	return fmt.Errorf("%w; the run of session %s is aborted", cause, s.session.ID())
}
