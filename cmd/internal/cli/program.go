// Package cli implements the command line of all three programs: commands, flags, environment, YAML file, help and
// shell completion. A program's grammar is a struct in the form of kong: a field with the tag cmd is a command, and a
// field of a command is a flag or an argument. Settings come from flags, then from LOOPBUS_<NAME> in the environment,
// then from the YAML file of --config, then from defaults. All mistakes are found before anything is started and
// reported together, each with the name and the source of the setting.
//
// Besides kong's own tags: brief includes a flag in the short help; variable names another environment variable that
// is read last, as NATS_URL is.
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

// ErrHelp is returned after help, the version or a completion script was printed on request.
var ErrHelp = errors.New("help was printed")

// Program is a command line. [Program.Parse] fills in its Grammar, so make a new Program for each call.
type Program struct {
	Name    string
	About   string // one sentence
	Notes   string // more lines for the overview
	Version string
	Grammar any       // pointer to a struct
	Vars    kong.Vars // variables of the tags
	// Default is the command to run if none is named. If it is "", naming no command is an error.
	Default string
}

// IO is a command's access to its process.
type IO struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        []string // NAME=value; if empty, unknown variables are not detected
}

// Command is an optional interface of a command's struct. Run is called if the command was chosen and its settings
// are valid.
type Command interface {
	Run(ctx context.Context, io *IO) error
}

// Checker is an optional interface of a command's struct, or of a struct embedded in it by name. Check returns every
// mistake. Settings that could not be parsed have their default value.
type Checker interface {
	Check(c *Call) []error
}

// Call is a parsed command line.
type Call struct {
	Command string // name of the command
	IO      *IO

	program *Program
	node    *kong.Node
	sources map[string]string // by setting
}

// Given reports whether a setting was given by flag, environment or file.
func (c *Call) Given(name string) bool { return c.sources[name] != "" }

// Source returns where a setting was given: its flag, its variable, or the file and the name there; "" if it was not
// given.
func (c *Call) Source(name string) string { return c.sources[name] }

// ByFlag reports whether a setting was given as a flag.
func (c *Call) ByFlag(name string) bool { return c.sources[name] == "--"+name }

// Settings returns the names of the command's settings, in the order of the help.
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
		return fmt.Errorf("%s %s has no Run method", c.program.Name, c.Command)
	}
	return command.Run(ctx, c.IO)
}

// Run parses a command line and runs its command.
func (p *Program) Run(ctx context.Context, args []string, io *IO) error {
	call, err := p.Parse(args, io)
	if err != nil {
		return err
	}
	return call.Run(ctx)
}

// Parse parses a command line. It returns all mistakes as one [UsageError], one per line.
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
		return nil, UsageError{p.noCommand(k.Model, name, words)}
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
		return nil, fmt.Errorf("command line of %s: %w", p.Name, err)
	}
	return k, nil
}

// joined merges the first two words if they name a command of a group, such as "sessions list".
func joined(model *kong.Application, words []string) []string {
	if len(words) < 2 {
		return words
	}
	if both := words[0] + " " + words[1]; command(model, both) != nil {
		return append([]string{both}, words[2:]...)
	}
	return words
}

// command returns a command by name, nil if there is none. The name of a command in a group has two words.
func command(model *kong.Application, name string) *kong.Node {
	i := slices.IndexFunc(model.Children, func(n *kong.Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return model.Children[i]
}

// noCommand returns the error for a name that is no command. It lists the commands, of a group only those in it.
func (p *Program) noCommand(model *kong.Application, name string, words []string) error {
	if name == "" {
		return fmt.Errorf("no command given\n\n%s", p.overview(model, false))
	}
	list := strings.TrimSpace(p.commands(model, ""))
	if group := p.commands(model, name+" "); group != "" {
		if len(words) == 0 {
			return fmt.Errorf("%s: no command of this group given\n\n%s", name, strings.TrimSpace(group))
		}
		list, name = strings.TrimSpace(group), name+" "+words[0]
	}
	var names []string
	for _, n := range p.shown(model) {
		names = append(names, n.Name)
	}
	return fmt.Errorf("unknown command %q%s\n\n%s", name, Suggest(name, names), list)
}
