package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/replay/internal/rerun"
	"github.com/loopbus/loopbus/schemas"
)

// rerunCommand is `replay rerun`.
type rerunCommand struct {
	Where         where    `embed:""`
	At            string   `brief:"" placeholder:"WHEN" help:"Branch at an event's sequence, or at a time in RFC 3339."`
	Model         string   `brief:"" help:"Use this model (default the recorded one)."`
	SystemPrompt  string   `brief:"" help:"Replace the system prompt."`
	ThinkingLevel string   `brief:"" placeholder:"LEVEL" help:"Set the thinking level: off … xhigh."`
	Tools         string   `brief:"" default:"recorded" help:"Answer tools from the log (recorded), or live."`
	Missing       string   `brief:"" default:"error" help:"For a call not in the log: return an error, or stop."`
	ID            string   `name:"id" brief:"" placeholder:"SESSION" help:"Set the new session's id (default random)."`
	JSON          bool     `name:"json" brief:"" help:"Print the outcome as one JSON object."`
	Sessions      []string `arg:"" optional:"" placeholder:"SESSION"`

	at      moment
	choices rerun.Choices
}

// Check requires one session, an event and a server. Some flags have the names of runner settings; their values from
// the environment and the file are meant for the runner, so only flags count.
func (c *rerunCommand) Check(call *cli.Call) []error {
	for name, to := range map[string]*string{"model": &c.Model, "system-prompt": &c.SystemPrompt, "id": &c.ID,
		"thinking-level": &c.ThinkingLevel, "tools": &c.Tools, "missing": &c.Missing} {
		if !call.ByFlag(name) {
			*to = ""
		}
	}
	errs := append(checkAt(c.At, &c.at), count(call, c.Sessions, "SESSION", 1, 1)...)
	if c.Where.Store != "" || c.Where.Archive != "" {
		errs = append(errs, errors.New("rerun needs a running server with a runner, which calls the model: --nats URL. "+
			"To use a store, start a runner with it; to use an archive, restore it with runner sessions restore"))
	}
	if c.At == "" {
		errs = append(errs, errors.New("rerun needs --at: the number that replay show prints before a prompt or a reply"))
	}
	if c.ID != "" {
		errs = append(errs, schemas.CheckSession(c.ID))
	}
	errs = append(errs, oneOf("tools", cmp.Or(c.Tools, "recorded"), "recorded", "live"),
		oneOf("missing", cmp.Or(c.Missing, "error"), "error", "stop"))
	if c.Tools == "live" && c.Missing != "" {
		errs = append(errs, errors.New("--missing: needs --tools recorded"))
	}
	if c.ThinkingLevel != "" {
		errs = append(errs, oneOf("thinking-level", c.ThinkingLevel, "off", "minimal", "low", "medium", "high", "xhigh"))
		level := schemas.ThinkingLevel(c.ThinkingLevel)
		c.choices.ThinkingLevel = &level
	}
	if call.ByFlag("system-prompt") {
		c.choices.SystemPrompt = &c.SystemPrompt
	}
	c.choices.Live, c.choices.Stop = c.Tools == "live", c.Missing == "stop"
	return errs
}

func oneOf(flag, value string, allowed ...string) error {
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	return fmt.Errorf("--%s: %q is not one of %s", flag, value, strings.Join(allowed, ", "))
}

// Run re-runs a session.
func (c *rerunCommand) Run(ctx context.Context, io *cli.IO) error {
	o := options{where: c.Where, json: c.JSON, at: c.at, lines: 20, sessions: c.Sessions}
	return invoked(ctx, io, o, c.run)
}

func (c *rerunCommand) run(ctx context.Context, a *app) error {
	at, err := a.seqAt(ctx, c.Sessions[0], c.at)
	if err != nil {
		return err
	}
	plan, err := rerun.NewPlan(c.Sessions[0], at, a.store.Read(ctx, c.Sessions[0], 1))
	if err != nil {
		return err
	}
	runners, err := client.New(a.conn.NATS(), client.Options{Prefix: a.o.Connection.Prefix, Name: "loopbus-replay",
		Logger: a.log, Dial: a.o.Connection.Settings()})
	if err != nil {
		return err
	}
	if c.Model != "" {
		listed, err := runners.Models(ctx)
		if err != nil {
			return fmt.Errorf("--model %s: %w", c.Model, err)
		}
		ref, err := rerun.Model(c.Model, listed)
		if err != nil {
			return cli.UsageError{Err: fmt.Errorf("--model: %w", err)}
		}
		c.choices.Model = &ref
	}
	c.choices.Session = cmp.Or(c.ID, newSession(c.Sessions[0]))
	r := &rerun.Rerun{Plan: plan, Choices: c.choices, Client: runners, JetStream: a.conn.JetStream(), Logger: a.log}
	for e, err := range a.store.Read(ctx, c.choices.Session, 1) {
		if err != nil {
			return err
		}
		r.Past = append(r.Past, e)
	}
	if !a.o.json {
		fmt.Fprintf(a.out, "session %s: as %s up to event %d\n\n", c.choices.Session, plan.Session, plan.Seq)
		r.Show = a.shows()
	}
	result, err := r.Do(ctx)
	if err != nil {
		return errors.Join(err, a.out.Flush())
	}
	return a.reran(r, result)
}

// newSession returns an id for the rerun of a session.
func newSession(of string) string {
	return of[:min(len(of), 48)] + "-rerun-" + strings.ToLower(rand.Text()[:8])
}

// shows returns a function that prints the items of a run as they arrive.
func (a *app) shows() func(client.Item) error {
	t := newTranscript(a)
	return func(i client.Item) error {
		err := a.showItem(context.Background(), item{Item: i}, t, t.event)
		return errors.Join(err, a.out.Flush())
	}
}

// outcome is the outcome of a rerun.
type outcome struct {
	Session      string                    `json:"session"`
	Parent       schemas.SessionParent     `json:"parent"`
	Reason       schemas.TerminationReason `json:"reason"`
	ErrorMessage string                    `json:"errorMessage,omitempty"`
	Turns        int                       `json:"turns"`
	Usage        schemas.Usage             `json:"usage"`
	DurationMs   int64                     `json:"durationMs"`
	Answered     []rerun.Given             `json:"answered"` // calls, answered from the log or missing there
	Missing      int                       `json:"missing"`
}

// reran prints the outcome of a rerun. It returns an error if the run did not end normally.
func (a *app) reran(r *rerun.Rerun, result client.Result) error {
	o := outcome{Session: r.Choices.Session, Parent: schemas.SessionParent{Session: r.Plan.Session, Seq: r.Plan.Seq},
		Reason: result.Reason, ErrorMessage: result.ErrorMessage, Turns: result.Turns, Usage: result.Usage,
		DurationMs: result.Duration.Milliseconds(), Answered: r.Plan.Answers.Given()}
	for _, g := range o.Answered {
		if g.Missing {
			o.Missing++
		}
	}
	if a.o.json {
		if err := json.NewEncoder(cli.JSONOut(a.out, a.toTerm)).Encode(o); err != nil {
			return err
		}
	} else {
		a.printOutcome(r, o)
	}
	if !result.Reason.Normal() {
		return fmt.Errorf("the run of session %s ended with %s", o.Session, cmp.Or(string(o.Reason), "nothing"))
	}
	return nil
}

func (a *app) printOutcome(r *rerun.Rerun, o outcome) {
	if !r.Choices.Live {
		fmt.Fprintf(a.out, "\n%s answered from the log of %s, %d not in it\n", plural(len(o.Answered)-o.Missing, "call"),
			o.Parent.Session, o.Missing)
		for _, g := range o.Answered {
			if g.Missing {
				fmt.Fprintf(a.out, "    %s: %s %s\n", g.Call, oneLine(g.ToolName, maxLine), oneLine(string(g.Args), maxLine))
			}
		}
	}
	fmt.Fprintf(a.out, "\nreplay diff %s %s shows where they diverge\n", o.Parent.Session, o.Session)
}
