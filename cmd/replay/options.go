package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/cmd/internal/config"
	"github.com/loopbus/loopbus/schemas"
)

const defaultURL = "nats://127.0.0.1:4222"

// options are what the command line, the environment and the configuration file come to.
type options struct {
	nats, store, creds, prefix string

	json, all            bool
	events, full, follow bool
	lines                int
	at                   moment
	sessions             []string
}

// switches are the flags that take no value: the others are followed by one.
var switches = []string{"json", "all", "events", "full", "follow", "h", "help"}

// parse reads the settings. Flags may stand anywhere, before the command and behind its arguments. Help goes to out. An
// error names every mistake that can be seen.
func parse(args []string, getenv func(string) string, out io.Writer) (cmd command, o options, err error) {
	flags, words := split(args)
	if len(words) > 0 && words[0] == "help" {
		flags, words = []string{"--help"}, words[1:]
	}
	if len(words) == 0 {
		if isHelp(flags) {
			_, err := io.WriteString(out, overview())
			return cmd, o, errors.Join(err, config.ErrHelp)
		}
		return cmd, o, fmt.Errorf("no command given\n\n%s", overview())
	}
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == words[0] })
	if i < 0 {
		return cmd, o, fmt.Errorf("unknown command %q\n\n%s", words[0], overview())
	}
	cmd = all[i]
	set := o.define(cmd)
	o.sessions, err = set.Parse(slices.Concat(nearest(flags), []string{"--"}, words[1:]), getenv, out, true)
	return cmd, o, errors.Join(err, o.checkSessions(cmd, words[1:], err))
}

// define returns the settings of a command.
func (o *options) define(cmd command) *config.Set {
	set := config.New("replay "+cmd.name, fmt.Sprintf("replay %s: %s.",
		strings.TrimSpace(cmd.name+" "+cmd.args), cmd.summary))
	set.String(&o.nats, "nats", "", "`URL` of a running server, "+defaultURL+" if no --store is given")
	set.String(&o.store, "store", "", "`directory` of an embedded server that is not running, instead of --nats")
	set.String(&o.creds, "creds", "", "credentials `file` for --nats")
	set.String(&o.prefix, "prefix", "", "first `token` of all subjects, "+schemas.DefaultPrefix+" if not given")
	if cmd.flags != nil {
		cmd.flags(set, o)
	}
	set.Check(o.check)
	return set
}

func (o *options) check() error {
	var errs []error
	if o.nats != "" && o.store != "" {
		errs = append(errs, errors.New("--nats and --store exclude each other"))
	}
	if o.nats == "" && o.store == "" {
		o.nats = defaultURL
	}
	if _, err := schemas.NewSubjects(o.prefix); err != nil {
		errs = append(errs, fmt.Errorf("--prefix: %w", err))
	}
	if o.follow && o.store != "" {
		errs = append(errs, errors.New("--follow needs a running server: nobody can write to a store that replay has open"))
	}
	if o.follow && o.at != (moment{}) {
		errs = append(errs, errors.New("--follow and --at exclude each other"))
	}
	return errors.Join(errs...)
}

// checkSessions looks at the arguments, unless help was asked for.
func (o *options) checkSessions(cmd command, sessions []string, parsed error) error {
	if errors.Is(parsed, config.ErrHelp) {
		return nil
	}
	var errs []error
	for _, session := range sessions {
		errs = append(errs, schemas.CheckSession(session))
	}
	switch n := len(sessions); {
	case cmd.name == "export" && (n == 1) == o.all:
		errs = append(errs, errors.New("export takes either a session or --all"))
	case n < cmd.min, cmd.max >= 0 && n > cmd.max:
		errs = append(errs, fmt.Errorf("wrong number of arguments: replay %s", strings.TrimSpace(cmd.name+" "+cmd.args)))
	}
	return errors.Join(errs...)
}

// split tells flags, with their values, from words. Behind "--" there are only words.
func split(args []string) (flags, words []string) {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--":
			return flags, append(words, args[i+1:]...)
		case len(a) < 2 || a[0] != '-':
			words = append(words, a)
		default:
			flags = append(flags, a)
			if !strings.Contains(a, "=") && !slices.Contains(switches, strings.TrimLeft(a, "-")) && i+1 < len(args) {
				i++
				flags = append(flags, args[i])
			}
		}
	}
	return flags, words
}

func isHelp(flags []string) bool {
	return slices.ContainsFunc(flags, func(f string) bool {
		name := strings.TrimLeft(f, "-")
		return name == "h" || name == "help"
	})
}

// nearest lets a flag that says where the logs are win over the other one in the environment or a file.
func nearest(flags []string) []string {
	given := func(name string) bool {
		return slices.ContainsFunc(flags, func(f string) bool {
			f, _, _ = strings.Cut(strings.TrimLeft(f, "-"), "=")
			return f == name
		})
	}
	switch {
	case given("store") && !given("nats"):
		return append(flags, "--nats=")
	case given("nats") && !given("store"):
		return append(flags, "--store=")
	}
	return flags
}

// overview is the help without a command.
func overview() string {
	var b strings.Builder
	b.WriteString("replay reads the logs of sessions. It changes nothing.\n\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  replay %-22s %s\n", strings.TrimSpace(c.name+" "+c.args), c.summary)
	}
	b.WriteString("  replay help COMMAND           the command's flags\n\n" +
		"Exit status: 0 if all is well, 1 if not, 2 if the command line is wrong.\n")
	return b.String()
}
