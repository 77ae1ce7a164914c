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

// runPrompt executes `runner run`: with an embedded server and runner or, with --nats, as a client. After an interrupt
// its error says what becomes of the prompt.
func runPrompt(ctx context.Context, call *cli.Call, o *options, once *onceSettings) error {
	if once.Session == "" {
		once.Session = randomID("s-")
	}
	shot := newOneShot(call.IO, once)
	err := shot.read(ctx)
	switch {
	case err != nil:
	case o.Server.embedded():
		err = withRunner(ctx, call, o, func(ended context.Context, c *client.Client) error {
			shot.connect(c)
			shot.approver.alone = !call.Given("listen")
			return shot.run(ended)
		})
	default:
		err = shot.runRemote(ctx, call, o)
	}
	if shot.over {
		return err
	}
	return interrupted(ctx, err, func() string { return shot.fate(o) })
}

// withRunner starts a runner with an embedded server, calls use with a client of it, and stops the runner when use
// returns.
func withRunner(ctx context.Context, call *cli.Call, o *options,
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
	outcome := errors.New("the runner stopped before it was ready")
	err = s.run(ended, func(ended context.Context) error {
		select {
		case <-s.Ready():
		case <-ended.Done():
			if ctx.Err() != nil {
				outcome = ctx.Err()
			}
			return nil
		}
		defer stop(wiring.ErrOver)
		c, err := client.New(s.Conn.NATS(), client.Options{Prefix: o.Server.Prefix, Name: o.Server.ID})
		if err != nil {
			outcome = err
		} else {
			outcome = use(ended, c)
		}
		return nil
	})
	if err != nil && errors.Is(outcome, err) { // the failure of the runner has ended use
		return outcome
	}
	return errors.Join(outcome, err)
}

// interrupted returns the error after an interrupt, which has the exit status of the signal and says what becomes of
// what was sent. Without an interrupt, and if err has a status already, it returns err.
func interrupted(ctx context.Context, err error, fate func() string) error {
	var signal signals.Received
	if status := new(cli.StatusError); errors.As(err, status) || !errors.As(context.Cause(ctx), &signal) {
		return err
	}
	text := fmt.Errorf("%w; %s", signal, fate())
	if err != nil && !errors.Is(err, context.Canceled) && !errors.As(err, new(signals.Received)) {
		text = errors.Join(text, err)
	}
	return cli.StatusError{Status: signal.Status(), Err: text}
}

// oneShot sends a prompt and prints its run.
type oneShot struct {
	once     *onceSettings
	io       *cli.IO
	session  *client.Session
	prompt   schemas.Input
	show     view.Shower
	terminal *view.Terminal // nil with --json
	approver *approver

	sent   error  // of sending: nil, [client.ErrUnacknowledged] or errUnsent
	over   bool   // the outcome was printed
	server string // with --nats

	mu sync.Mutex // guards output: the goroutine that reads approvals prints too
}

var errUnsent = errors.New("nothing was sent")

func newOneShot(io *cli.IO, once *onceSettings) *oneShot {
	s := &oneShot{once: once, io: io, sent: errUnsent}
	if once.JSON {
		s.show = view.JSON{Out: cli.JSONOut(io.Stdout, cli.IsTerminal(io.Stdout))}
	} else {
		s.terminal = view.NewTerminal(io.Stdout, cli.WantsColour(io.Stdout, io.Getenv))
		s.show = s.terminal
	}
	return s
}

// read reads the prompt and its files. Reading from a terminal cannot be cancelled, so it may outlive the call.
func (s *oneShot) read(ctx context.Context) error {
	done := make(chan error, 1)
	go func() {
		err := s.once.read(s.io.Stdin)
		if err == nil {
			s.prompt, err = s.once.input(s.io.Stdin)
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *oneShot) connect(c *client.Client) {
	s.session = c.Session(s.once.Session)
	s.approver = newApprover(s.session, c.Subjects(), s.io, s.say(s.io.Stderr))
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
	if err == nil || errors.Is(err, client.ErrUnacknowledged) {
		s.sent = err
	}
	if err != nil {
		return err
	}
	err = s.follow(ctx, run)
	s.over = err == nil || err == errUnusual
	return err
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
