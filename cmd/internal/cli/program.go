// Package cli is the command line of all three programs: commands, flags, environment, YAML file, help and shell
// completion. A program's grammar is a struct of kong's: a field with the tag cmd is a command, a field of a command is
// a flag or an argument. Settings come from flags, then LOOPBUS_<NAME> in the environment, then the YAML file of
// --config, then defaults. All mistakes are found before anything is started and reported together, each with the
// setting's name and where it came from.
//
// Tags in addition to kong's own: brief has a flag in the short help; variable names another environment variable that
// counts behind all else, as NATS_URL does.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// ErrHelp says that help, the version or a completion script was asked for and has been printed.
var ErrHelp = errors.New("help was printed")

// Program is one command line. Its Grammar is filled in by [Program.Parse], once: make one for each call.
type Program struct {
	Name    string
	About   string // one sentence
	Notes   string // further lines of the overview
	Version string
	Grammar any       // pointer to a struct
	Vars    kong.Vars // replaced in tags
	// Default is the command that is meant where none is named; without it, naming none is a mistake.
	Default string
}

// IO is what a command has of its process.
type IO struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        []string // NAME=value; may be empty, and then no unknown variable is noticed
}

// Command is what a command's struct may be: it is run when it was chosen and its settings are sound.
type Command interface {
	Run(ctx context.Context, io *IO) error
}

// Checker is what a command's struct, or one embedded in it by name, may be. Check returns every mistake; where a
// setting itself is mistaken it finds the default.
type Checker interface {
	Check(c *Call) []error
}

// Call is a command line that has been read.
type Call struct {
	Command string // its name
	IO      *IO

	program *Program
	node    *kong.Node
	sources map[string]string // by setting
}

// Given reports whether a setting was given at all: by flag, environment or file.
func (c *Call) Given(name string) bool { return c.sources[name] != "" }

// Source is where a setting was given: its flag, its variable, or the file and its name there; "" if it was not.
func (c *Call) Source(name string) string { return c.sources[name] }

// ByFlag reports whether a setting was given as a flag.
func (c *Call) ByFlag(name string) bool { return c.sources[name] == "--"+name }

// Settings are the names of the command's settings, in the order of the help.
func (c *Call) Settings() (names []string) {
	for _, f := range c.node.Flags {
		names = append(names, f.Name)
	}
	return names
}

// Run runs the chosen command.
func (c *Call) Run(ctx context.Context) error {
	command, ok := c.node.Target.Addr().Interface().(Command)
	if !ok {
		return fmt.Errorf("%s %s does nothing", c.program.Name, c.Command)
	}
	return command.Run(ctx, c.IO)
}

// Run reads a command line and runs what it says.
func (p *Program) Run(ctx context.Context, args []string, io *IO) error {
	call, err := p.Parse(args, io)
	if err != nil {
		return err
	}
	return call.Run(ctx)
}

// Parse reads a command line. What is wrong with it is one [UsageError] with a line for each mistake.
func (p *Program) Parse(args []string, io *IO) (*Call, error) {
	raw := &collector{given: map[*kong.Value]string{}}
	k, err := p.kong(raw)
	if err != nil {
		return nil, err
	}
	line := split(k.Model, args)
	line.words = joined(k.Model, line.words)
	switch done, err := p.builtIn(k.Model, line, io); {
	case err != nil:
		return nil, UsageError{err}
	case done:
		return nil, ErrHelp
	}
	name, words := p.Default, line.words
	if len(words) > 0 && (p.Default == "" || command(k.Model, words[0]) != nil || len(line.behind) == 0) {
		name, words = words[0], words[1:]
	}
	node := command(k.Model, name)
	if node == nil {
		return nil, UsageError{p.noCommand(k.Model, name)}
	}
	c := &Call{Command: name, IO: io, program: p, node: node, sources: map[string]string{}}
	tokens, errs := line.known(node)
	ctx, err := kong.Trace(k, slices.Concat([]string{name}, tokens, []string{"--"}, words, line.behind))
	if err != nil {
		return nil, err
	}
	if ctx.Error != nil {
		errs = append(errs, ctx.Error)
	} else if _, err := ctx.Apply(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, c.resolve(k.Model, raw.given)...)
	if err := errors.Join(errs...); err != nil {
		return c, UsageError{err}
	}
	return c, nil
}

func (p *Program) kong(raw *collector) (*kong.Kong, error) {
	options := []kong.Option{
		kong.Name(p.Name), p.Vars, kong.Description(p.About), kong.NoDefaultHelp(), kong.WithHyphenPrefixedParameters(true),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), raw), kong.TypeMapper(reflect.TypeFor[Lines](), raw),
		kong.KindMapper(reflect.Bool, boolCollector{raw}),
	}
	for _, kind := range []reflect.Kind{reflect.String, reflect.Int, reflect.Float64, reflect.Slice} {
		options = append(options, kong.KindMapper(kind, raw))
	}
	k, err := kong.New(p.Grammar, options...)
	if err != nil {
		return nil, fmt.Errorf("the command line of %s: %w", p.Name, err)
	}
	return k, nil
}

// joined makes one word of the first two where they are the name of a command in a group, such as "sessions list".
func joined(model *kong.Application, words []string) []string {
	if len(words) < 2 {
		return words
	}
	if both := words[0] + " " + words[1]; command(model, both) != nil {
		return append([]string{both}, words[2:]...)
	}
	return words
}

// command is a command by its name, nil if there is none. That of a command in a group has two words.
func command(model *kong.Application, name string) *kong.Node {
	i := slices.IndexFunc(model.Children, func(n *kong.Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return model.Children[i]
}

func (p *Program) noCommand(model *kong.Application, name string) error {
	if name == "" {
		return fmt.Errorf("no command given\n\n%s", p.overview(model, false))
	}
	var names []string
	for _, n := range model.Children {
		if !n.Hidden {
			names = append(names, n.Name)
		}
	}
	return fmt.Errorf("unknown command %q%s\n\n%s", name, Suggest(name, names), strings.TrimSpace(p.commands(model)))
}
