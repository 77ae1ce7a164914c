package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/internal/signals"
	"github.com/loopbus/loopbus/cmd/internal/waiting"
	"github.com/loopbus/loopbus/cmd/runner/internal/view"
	"github.com/loopbus/loopbus/cmd/wiring"
	"github.com/loopbus/loopbus/schemas"
)

// errUnusual ends the program with status 1 after a run that was refused or ended abnormally, which was printed
// already.
var errUnusual = cli.StatusError{Status: cli.StatusBad}

// runPrompt executes `runner run`: with an embedded server and runner or, with --nats, as a client.
func runPrompt(ctx context.Context, call *cli.Call, o *options, once *onceSettings) error {
	if err := once.read(call.IO.Stdin); err != nil {
		return err
	}
	if once.Session == "" {
		once.Session = randomID("s-")
	}
	if !o.Server.embedded() {
		return runRemote(ctx, call, o, once)
	}
	return runEmbedded(ctx, call, o, once)
}

// runEmbedded starts a runner with an embedded server and sends it the prompt as any client would.
func runEmbedded(ctx context.Context, call *cli.Call, o *options, once *onceSettings) error {
	return withRunner(ctx, call, o, once.Session, func(ended context.Context, c *client.Client) error {
		shot, err := newOneShot(c, call.IO, once)
		if err != nil {
			return err
		}
		shot.approver.alone = !call.Given("listen")
		return shot.run(ended)
	})
}

// withRunner starts a runner with an embedded server, calls use with a client of it, and stops the runner when use
// returns.
func withRunner(ctx context.Context, call *cli.Call, o *options, session string,
	use func(context.Context, *client.Client) error,
) error {
	if notice := o.Models.chosenBecause; notice != "" {
		fmt.Fprintln(call.IO.Stderr, notice)
	}
	s, err := open(ctx, o, o.Observe.Logger(call.IO))
	if err != nil {
		return err
	}
	defer s.close()
	ended, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	outcome := errors.New("the runner stopped before the run ended")
	err = s.run(ended, func(ended context.Context) error {
		select {
		case <-s.Ready():
		case <-ended.Done():
			outcome = s.interrupted(ctx, session)
			return nil
		}
		defer stop(wiring.ErrOver)
		c, err := client.New(s.Conn.NATS(), client.Options{Prefix: o.Server.Prefix, Name: o.Server.ID})
		if err != nil {
			outcome = err
		} else if outcome = use(ended, c); ctx.Err() != nil {
			outcome = s.interrupted(ctx, session)
		}
		return nil
	})
	return errors.Join(outcome, err)
}

// interrupted returns an error that explains what happens to the run of a session after an interrupt.
func (s *service) interrupted(ctx context.Context, session string) error {
	text := fmt.Sprintf("%s; the run of session %s was stopped and is lost: without --store nothing is kept",
		context.Cause(ctx), session)
	if s.o.Server.Store != "" {
		text = fmt.Sprintf("%s; the run of session %s continues when a runner is started with --store %s",
			context.Cause(ctx), session, s.o.Server.Store)
	}
	return withStatus(ctx, errors.New(text))
}

// withStatus wraps an error with the exit status of the signal that ended ctx.
func withStatus(ctx context.Context, err error) error {
	var signal signals.Received
	if errors.As(context.Cause(ctx), &signal) {
		return cli.StatusError{Status: signal.Status(), Err: err}
	}
	return err
}

// oneShot sends a prompt and prints its run.
type oneShot struct {
	session  *client.Session
	prompt   schemas.Input
	show     view.Shower
	terminal *view.Terminal // nil with --json
	approver *approver

	mu sync.Mutex // guards output: the goroutine that reads approvals prints too
}

func newOneShot(c *client.Client, io *cli.IO, once *onceSettings) (*oneShot, error) {
	in, err := once.input(io.Stdin)
	if err != nil {
		return nil, err
	}
	s := &oneShot{session: c.Session(once.Session), prompt: in}
	if once.JSON {
		s.show = view.JSON{Out: cli.JSONOut(io.Stdout, cli.IsTerminal(io.Stdout))}
	} else {
		s.terminal = view.NewTerminal(io.Stdout, cli.WantsColour(io.Stdout, io.Getenv))
		s.show = s.terminal
	}
	s.approver = newApprover(s.session, c.Subjects(), io, s.say(io.Stderr))
	return s, nil
}

// say returns a function that prints a line of the program itself: between the output for a person, or to stderr with
// --json.
func (s *oneShot) say(stderr io.Writer) func(string) {
	return func(text string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.terminal != nil {
			s.terminal.Say(text)
			return
		}
		fmt.Fprintln(stderr, cli.OneLine(text))
	}
}

// run sends the prompt and prints the run until it ends.
func (s *oneShot) run(ctx context.Context) error {
	run, err := s.session.Prompt(ctx, s.prompt)
	if err != nil {
		return err
	}
	return s.follow(ctx, run)
}

func (s *oneShot) follow(ctx context.Context, run *client.Run) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.approver.stop = stop
	defer waiting.Every(s.look)()
	normal := true
	for item, err := range run.Items(ctx) {
		var rejected *client.RejectedError
		switch {
		case errors.As(err, &rejected):
			return errUnusual // its event was printed
		case err != nil && context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case item.Update != nil:
			err = s.shows(item)
		default:
			if err = s.shows(item); err == nil {
				s.approver.event(ctx, *item.Event)
			}
			if end, ok := item.Event.Data.(*schemas.AgentEnd); ok {
				normal = end.TerminationReason.Normal()
			}
		}
		if err != nil {
			return err
		}
	}
	if !normal {
		return errUnusual
	}
	return nil
}

// look prints which calls wait for a worker.
func (s *oneShot) look(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal != nil {
		s.terminal.Look(now)
	}
}

func (s *oneShot) shows(i client.Item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i.Update != nil {
		return s.show.Update(*i.Update)
	}
	return s.show.Event(*i.Event)
}
