package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// onceSettings are the settings of a single run.
type onceSettings struct {
	Prompt  string    `brief:"" help:"Send this prompt and print its run; - reads it from standard input."`
	Attach  cli.Lines `placeholder:"FILE" help:"Attach an image or a text file to the prompt; - reads standard input."`
	Session string    `brief:"" help:"Send the prompt to this session (default a new one)."`
	JSON    bool      `name:"json" brief:"" help:"Print the run as CloudEvents, one JSON object per line."`

	AbortOnExit bool `brief:"" help:"Abort the run on an interrupt; by default, with --nats, it continues."`
}

// Check validates the session.
func (o *onceSettings) Check(c *cli.Call) (errs []error) {
	if o.Session != "" {
		if err := schemas.CheckSession(o.Session); err != nil {
			errs = append(errs, fmt.Errorf("--session: %w", err))
		}
	}
	switch given := c.Given("prompt"); {
	case given && strings.TrimSpace(o.Prompt) == "":
		errs = append(errs, errors.New("--prompt: is empty"))
	case c.Command == commandDefault && !given && (c.Given("session") || o.JSON):
		errs = append(errs, errors.New("--session and --json: need --prompt"))
	case c.Command == commandDefault && !given && c.ByFlag("attach"):
		errs = append(errs, errors.New("--attach: needs --prompt"))
	}
	return errs
}

// maxPrompt is larger than the largest command; no more than this is read from standard input.
const maxPrompt = 4 << 20

// read reads the prompt from standard input if it is "-".
func (o *onceSettings) read(stdin io.Reader) error {
	if o.Prompt != "-" {
		return nil
	}
	if slices.Contains(o.Attach, "-") {
		return cli.UsageError{Err: errors.New("--attach: standard input is already read as the prompt")}
	}
	text, err := io.ReadAll(io.LimitReader(stdin, maxPrompt))
	if err != nil {
		return fmt.Errorf("read the prompt from standard input: %w", err)
	}
	if o.Prompt = string(text); strings.TrimSpace(o.Prompt) == "" {
		return cli.UsageError{Err: errors.New("--prompt: standard input is empty")}
	}
	return nil
}

// defaultCommand runs if no command is given: it serves or, with --prompt, runs a prompt.
type defaultCommand struct {
	Once    onceSettings `embed:"" group:"sessions"`
	Options options      `embed:""`

	call *cli.Call
}

// Check keeps the call for a prompt.
func (c *defaultCommand) Check(call *cli.Call) []error {
	c.call = call
	if c.Options.once {
		return checkOnce(call, &c.Options)
	}
	return nil
}

// Run serves or runs a prompt.
func (c *defaultCommand) Run(ctx context.Context, io *cli.IO) error {
	if c.Options.once {
		return runPrompt(ctx, c.call, &c.Options, &c.Once)
	}
	return serve(ctx, &c.Options, io)
}

// runCommand is `runner run`.
type runCommand struct {
	Text    string       `arg:"" optional:"" name:"prompt-text" placeholder:"PROMPT" help:"The prompt."`
	Once    onceSettings `embed:"" group:"sessions"`
	Options options      `embed:""`

	call *cli.Call
}

// Check requires exactly one prompt.
func (c *runCommand) Check(call *cli.Call) []error {
	c.call = call
	errs := checkOnce(call, &c.Options)
	switch given := call.Given("prompt"); {
	case given && c.Text != "" && call.ByFlag("prompt"):
		errs = append(errs, errors.New("--prompt: the prompt is already given as an argument"))
	case c.Text != "":
		c.Once.Prompt = c.Text
	case !given:
		errs = append(errs, errors.New("no prompt given: use runner run 'PROMPT', or - to read it from standard input"))
	}
	return errs
}

// Run runs the prompt.
func (c *runCommand) Run(ctx context.Context, _ *cli.IO) error {
	return runPrompt(ctx, c.call, &c.Options, &c.Once)
}

func itoa(n int) string { return strconv.Itoa(n) }
