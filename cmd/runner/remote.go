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

// clientSettings are those that a client of the runners can do something with: how it connects, what it shows, and
// what commands set for a session.
var clientSettings = []string{
	"nats", "context", "creds", "nkey", "user", "password", "token", "tls-ca", "tls-cert", "tls-key", "prefix",
	"inbox-prefix", "config", "prompt", "attach", "session", "json", "abort-on-exit", "log-level", "log-json",
	"model", "models", "fallbacks", "thinking", "profile", "system-prompt", "workspace",
}

// checkOnce refuses, with --nats, flags that are the runners' business: a prompt's session is driven by them, with
// their settings.
func checkOnce(call *cli.Call, o *options) (errs []error) {
	if o.Server.embedded() {
		return nil
	}
	for _, name := range call.Settings() {
		if call.ByFlag(name) && !slices.Contains(clientSettings, name) {
			errs = append(errs, fmt.Errorf("--%s: is for the runners at --nats to decide: with --nats a prompt is sent to "+
				"them, and this process drives nothing", name))
		}
	}
	return errs
}

// unused are the settings of the environment and the file that a client can do nothing with.
func unused(call *cli.Call) (names []string) {
	for _, name := range call.Settings() {
		if call.Given(name) && !slices.Contains(clientSettings, name) {
			names = append(names, call.Source(name))
		}
	}
	return names
}

// runRemote has the runners at --nats do it: it is a client and nothing else.
func runRemote(ctx context.Context, call *cli.Call, o *options, once *onceSettings) error {
	if names := unused(call); len(names) > 0 {
		fmt.Fprintf(call.IO.Stderr, "not used, because the runners at --nats have their own: %s\n", strings.Join(names, ", "))
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
	return withStatus(ctx, fmt.Errorf("%s; the run of session %s goes on. To watch it: replay show %s --follow --nats %s",
		context.Cause(ctx), once.Session, once.Session, dial.Connected(c.NATS())))
}

// setSession sends the commands that the settings ask for, each once its predecessor has taken effect.
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
			return cli.UsageError{Err: errors.New("--fallbacks: with --nats it goes with --model")}
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

// abortTimeout is how long the run may take to end after it was aborted.
const abortTimeout = 15 * time.Second

// abort ends the run because its client was asked to stop, and says what came of it.
func (s *oneShot) abort(ctx context.Context) error {
	cause := context.Cause(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	if err := s.session.Abort(ctx, cause.Error()); err != nil {
		return fmt.Errorf("%w; abort the run of session %s: %w", cause, s.session.ID(), err)
	}
	return fmt.Errorf("%w; the run of session %s is aborted", cause, s.session.ID())
}
