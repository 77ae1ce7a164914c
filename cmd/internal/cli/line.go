package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// line is a tokenized command line. Flags may appear anywhere, also before the command.
type line struct {
	flags  [][]string // each flag as given, followed by its value if it takes one
	words  []string
	behind []string // arguments after "--", which are never flags
}

// split tokenizes a command line. Whether a flag takes a value is known from all commands together. An unknown flag
// is assumed to take one if it is not followed by a flag, so that all mistakes are reported at once.
func split(model *kong.Application, args []string) (l line) {
	switches, values := map[string]bool{"help": true, "h": true, "version": true}, map[string]bool{}
	for _, node := range append([]*kong.Node{model.Node}, model.Children...) {
		for _, f := range node.Flags {
			if f.IsBool() {
				switches[f.Name] = true
			} else {
				values[f.Name] = true
			}
		}
	}
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch name, _, hasValue := strings.Cut(strings.TrimLeft(a, "-"), "="); {
		case a == "--":
			l.behind = args[i+1:]
			return l
		case len(a) < 2 || a[0] != '-':
			l.words = append(l.words, a)
		case hasValue || switches[name] && !values[name]:
			l.flags = append(l.flags, []string{a})
		case i+1 < len(args) && (values[name] || !strings.HasPrefix(args[i+1], "-")):
			l.flags = append(l.flags, args[i:i+2])
			i++
		default:
			l.flags = append(l.flags, []string{a})
		}
	}
	return l
}

// has reports whether a switch is among the flags.
func (l line) has(names ...string) bool {
	return slices.ContainsFunc(l.flags, func(f []string) bool {
		return len(f) == 1 && slices.Contains(names, strings.TrimLeft(f[0], "-"))
	})
}

// known returns the flags that the command has, each with two dashes, and an error for each other flag.
func (l line) known(node *kong.Node) (tokens []string, errs []error) {
	for _, f := range l.flags {
		bare := strings.TrimLeft(f[0], "-")
		name, _, hasValue := strings.Cut(bare, "=")
		flag := flagOf(node, name)
		switch {
		case flag == nil:
			errs = append(errs, fmt.Errorf("unknown flag --%s%s", name, suggestFlag(node, name)))
		case len(f) == 1 && !hasValue && !flag.IsBool():
			errs = append(errs, fmt.Errorf("--%s: needs a value", name))
		case flag.IsBool() && len(f) == 2: // another command has a flag of this name that takes a value
			errs = append(errs, fmt.Errorf("unexpected argument %q", f[1]))
		case len(f) == 2:
			tokens = append(tokens, "--"+bare+"="+f[1])
		default:
			tokens = append(tokens, "--"+bare)
		}
	}
	return tokens, errs
}

func flagOf(node *kong.Node, name string) *kong.Flag {
	for _, f := range node.Flags {
		if f.Name == name {
			return f
		}
	}
	return nil
}

func suggestFlag(node *kong.Node, name string) string {
	names := make([]string, len(node.Flags))
	for i, f := range node.Flags {
		names[i] = f.Name
	}
	s := closest(name, names)
	if s == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean --%s?", s)
}
