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

// checkOnce refuses flags that configure a runner if --nats is given: then other runners drive the session. Without it
// there is nobody to abort a run for: it ends with this process.
func checkOnce(call *cli.Call, o *options) (errs []error) {
	if o.Server.embedded() {
		if call.ByFlag("abort-on-exit") {
			errs = append(errs, errors.New("--abort-on-exit: needs --nats: without it the run stops with this process, and "+
				"with --store it continues at the next start; abort it there"))
		}
		return errs
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
func (s *oneShot) runRemote(ctx context.Context, call *cli.Call, o *options) error {
	if names := unused(call); len(names) > 0 {
		fmt.Fprintf(call.IO.Stderr, "ignored, because the runners at --nats decide: %s\n", strings.Join(names, ", "))
	}
	c, err := o.Server.Client(ctx, "loopbus runner run", o.Observe.Logger(call.IO))
	if err != nil {
		return err
	}
	defer c.Close()
	s.server = dial.Connected(c.NATS())
	s.connect(c)
	if err := setSession(ctx, s.session, call, o); err != nil {
		return err
	}
	err = s.run(ctx)
	if ctx.Err() != nil && s.once.AbortOnExit && s.sent == nil && !s.over { // else it would abort the run of another
		return s.abort(ctx)
	}
	return err
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

// fate says what becomes of the prompt when this process ends.
func (s *oneShot) fate(o *options) string {
	id := s.once.Session
	follow, look := "", ""
	if s.server != "" {
		follow = fmt.Sprintf(". To follow it: replay show %s --follow --nats %s", id, s.server)
		look = fmt.Sprintf(". To see whether it is: replay show %s --nats %s", id, s.server)
	}
	run := o.afterwards("the run of session " + id)
	switch {
	case s.sent == nil:
		return run + follow
	case errors.Is(s.sent, client.ErrUnacknowledged):
		return fmt.Sprintf("the prompt was sent to session %s, but not acknowledged: if it is stored, %s%s", id, run, look)
	}
	return "nothing was sent to session " + id
}

// abortTimeout limits how long an aborted run may take to end.
const abortTimeout = 15 * time.Second

// abort aborts the run after an interrupt. It always returns an error, which tells the outcome.
func (s *oneShot) abort(ctx context.Context) error {
	done, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	err := s.session.Abort(done, context.Cause(ctx).Error())
	text := fmt.Sprintf("the run of session %s is aborted", s.session.ID())
	if err != nil {
		text = fmt.Sprintf("abort the run of session %s: %v", s.session.ID(), err)
	}
	return interrupted(ctx, nil, func() string { return text })
}
