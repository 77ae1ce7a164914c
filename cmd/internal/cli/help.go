package cli

import (
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// builtIn does what every program does by itself: help, the version, completion scripts. done says that it was one.
func (p *Program) builtIn(model *kong.Application, l line, io_ *IO) (done bool, err error) {
	words, all := l.words, l.has("all")
	first := ""
	if len(words) > 0 {
		first = words[0]
	}
	switch {
	case l.has("version") || first == "version" && len(words) == 1:
		_, err = fmt.Fprintf(io_.Stdout, "%s %s%s\n", p.Name, p.Version, revision())
		return true, err
	case first == "completion":
		return true, p.completion(model, words[1:], io_.Stdout)
	case first == "help":
		return true, p.help(model, joined(model, words[1:]), all, io_.Stdout)
	case l.has("help", "h"):
		if len(words) > 1 {
			words = words[:1] // the rest are its arguments
		}
		return true, p.help(model, words, all, io_.Stdout)
	}
	return false, nil
}

// revision is what the binary was built from, where the build knows.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	text := " (" + info.GoVersion
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			text += ", " + s.Value[:min(12, len(s.Value))]
		}
	}
	return text + ")"
}

// help prints the overview, or a command's help; all has all flags in it.
func (p *Program) help(model *kong.Application, words []string, all bool, out io.Writer) error {
	text := ""
	switch {
	case len(words) == 0:
		text = p.overview(model, all)
	case command(model, words[0]) == nil:
		return p.noCommand(model, words[0])
	default:
		text = p.commandHelp(command(model, words[0]), all)
	}
	_, err := io.WriteString(out, text)
	return err
}

func (p *Program) overview(model *kong.Application, all bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage: %s COMMAND [FLAGS]\n\n%s", p.About, p.Name, p.commands(model))
	if p.Default != "" {
		if node := command(model, p.Default); node != nil {
			fmt.Fprintf(&b, "\nWithout a command:\n%s", flagsHelp(node, all))
		}
	}
	if p.Notes != "" {
		fmt.Fprintf(&b, "\n%s\n", p.Notes)
	}
	more := fmt.Sprintf("%s help COMMAND has a command's flags", p.Name)
	if p.Default != "" && !all {
		more += fmt.Sprintf(", %s help --all all of them", p.Name)
	}
	fmt.Fprintf(&b, "\n%s.\nEach flag is also %s<NAME> in the environment, and a setting of the YAML file of --config.\n",
		more, EnvPrefix)
	return b.String()
}

func (p *Program) commands(model *kong.Application) string {
	var b strings.Builder
	b.WriteString("Commands:\n")
	for _, n := range model.Children {
		if !n.Hidden {
			fmt.Fprintf(&b, "  %-24s %s\n", strings.TrimSpace(n.Name+" "+arguments(n)), n.Help)
		}
	}
	fmt.Fprintf(&b, "  %-24s %s\n", "completion SHELL", "Print a completion script for bash, zsh or fish")
	return b.String()
}

// arguments are those of a command as its usage shows them.
func arguments(n *kong.Node) string {
	var names []string
	for _, a := range n.Positional {
		if a.Tag.Hidden {
			continue
		}
		name := strings.ToUpper(a.Name)
		if a.Tag.PlaceHolder != "" {
			name = a.Tag.PlaceHolder
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func (p *Program) commandHelp(n *kong.Node, all bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n\nUsage: %s [FLAGS]\n\n%s", strings.TrimSuffix(n.Help, "."),
		strings.TrimSpace(p.Name+" "+n.Name+" "+arguments(n)), flagsHelp(n, all))
	if n.Detail != "" {
		fmt.Fprintf(&b, "\n%s\n", n.Detail)
	}
	if !all && hides(n) {
		fmt.Fprintf(&b, "\n%s help %s --all has all flags.\n", p.Name, n.Name)
	}
	return b.String()
}

// hides reports whether the short help of a command leaves flags out. Where none is marked brief, all are shown.
func hides(n *kong.Node) bool {
	brief := 0
	for _, f := range n.Flags {
		if f.Tag.Has("brief") && f.Name != "config" {
			brief++
		}
	}
	return brief > 0 && brief+1 < len(n.Flags)
}

// flagsHelp has a line for each flag, in the sections of the grammar and in its order; those without one come first.
func flagsHelp(n *kong.Node, all bool) string {
	all = all || !hides(n)
	sections, lines := []string{""}, map[string]string{}
	for _, f := range n.Flags {
		if f.Hidden || !all && !f.Tag.Has("brief") {
			continue
		}
		name := "--" + f.Name
		if !f.IsBool() {
			name += " " + placeholder(f)
		}
		if !slices.Contains(sections, group(f)) {
			sections = append(sections, group(f))
		}
		lines[group(f)] += fmt.Sprintf("  %-28s %s\n", name, helpOf(f))
	}
	text := lines[""]
	for _, s := range sections[1:] {
		text += fmt.Sprintf("\n%s:\n%s", strings.ToUpper(s[:1])+s[1:], lines[s])
	}
	return strings.TrimPrefix(text, "\n")
}

func placeholder(f *kong.Flag) string {
	if f.PlaceHolder != "" {
		return f.PlaceHolder
	}
	switch f.Target.Type().String() {
	case "int", "float64":
		return "N"
	case "time.Duration":
		return "TIME"
	case "[]string":
		return "LIST"
	}
	return "TEXT"
}

func helpOf(f *kong.Flag) string {
	switch f.Default {
	case "", "false", "0", "0s":
		return f.Help
	}
	return strings.TrimSuffix(f.Help, ".") + " (default " + f.Default + ")."
}
