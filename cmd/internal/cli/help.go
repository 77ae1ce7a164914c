package cli

import (
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// builtIn executes what every program can do: help, version, completion scripts. done reports whether that was
// requested.
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
			words = words[:1] // the others are arguments of the command
		}
		return true, p.help(model, words, all, io_.Stdout)
	}
	return false, nil
}

// revision returns the Go version and the revision of the build, if known.
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

// help prints the overview, the help of a command, or the commands of a group. all includes all flags.
func (p *Program) help(model *kong.Application, words []string, all bool, out io.Writer) error {
	text := ""
	switch {
	case len(words) == 0:
		text = p.overview(model, all)
	case command(model, words[0]) == nil && len(words) == 1 && p.commands(model, words[0]+" ") != "":
		text = p.commands(model, words[0]+" ")
	case command(model, words[0]) == nil:
		return p.noCommand(model, words[0], words[1:])
	default:
		text = p.commandHelp(command(model, words[0]), all)
	}
	_, err := io.WriteString(out, text)
	return err
}

func (p *Program) overview(model *kong.Application, all bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage: %s COMMAND [FLAGS]\n\n%s", p.About, p.Name, p.commands(model, ""))
	if p.Default != "" {
		if node := command(model, p.Default); node != nil {
			fmt.Fprintf(&b, "\nFlags without a command:\n%s", flagsHelp(node, all))
		}
	}
	if p.Notes != "" {
		fmt.Fprintf(&b, "\n%s\n", p.Notes)
	}
	more := fmt.Sprintf("%q shows the flags of a command", p.Name+" help COMMAND")
	if p.Default != "" && !all {
		more += fmt.Sprintf(", %q shows all flags", p.Name+" help --all")
	}
	fmt.Fprintf(&b, "\n%s.\nEvery flag can also be set as %s<NAME> in the environment, or in the YAML file of --config.\n",
		more, EnvPrefix)
	return b.String()
}

// commands lists the commands whose names have a prefix, "" if there are none.
func (p *Program) commands(model *kong.Application, prefix string) string {
	var b strings.Builder
	for _, n := range p.shown(model) {
		if strings.HasPrefix(n.Name, prefix) {
			fmt.Fprintf(&b, "  %-24s %s\n", strings.TrimSpace(n.Name+" "+arguments(n)), n.Help)
		}
	}
	if prefix == "" {
		fmt.Fprintf(&b, "  %-24s %s\n", "completion SHELL", "Print a completion script for bash, zsh or fish.")
	}
	if b.Len() == 0 {
		return ""
	}
	return "Commands:\n" + b.String()
}

// arguments returns the arguments of a command in the form of a usage line.
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
		fmt.Fprintf(&b, "\n%q shows all flags.\n", fmt.Sprintf("%s help %s --all", p.Name, n.Name))
	}
	return b.String()
}

// hides reports whether the short help of a command omits flags. If no flag is marked brief, it shows all.
func hides(n *kong.Node) bool {
	brief := 0
	for _, f := range n.Flags {
		if f.Tag.Has("brief") && f.Name != "config" {
			brief++
		}
	}
	return brief > 0 && brief+1 < len(n.Flags)
}

// flagsHelp returns a line for each flag, by sections in the order of the grammar; flags without a section come
// first.
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
		text += fmt.Sprintf("\n%s:\n%s", title(s), lines[s])
	}
	return strings.TrimPrefix(text, "\n")
}

// title is the heading of a section.
func title(section string) string {
	if section == "mcp" {
		return "MCP"
	}
	return strings.ToUpper(section[:1]) + section[1:]
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
