package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// completion prints a script that completes the program's commands and flags in a shell.
func (p *Program) completion(model *kong.Application, args []string, out io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: %s completion bash|zsh|fish", p.Name)
	}
	var script string
	switch shells := []string{"bash", "zsh", "fish"}; args[0] {
	case "bash":
		script = p.bash(model)
	case "zsh":
		// zsh can run the completion scripts of bash.
		script = "autoload -Uz compinit bashcompinit && compinit -i && bashcompinit\n" + p.bash(model)
	case "fish":
		script = p.fish(model)
	default:
		return fmt.Errorf("no completion for the shell %q; there are %s%s", args[0], strings.Join(shells, ", "),
			Suggest(args[0], shells))
	}
	_, err := io.WriteString(out, script)
	return err
}

// shown returns the commands that are not hidden.
func (p *Program) shown(model *kong.Application) (nodes []*kong.Node) {
	for _, n := range model.Children {
		if !n.Hidden {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func (p *Program) bash(model *kong.Application) string {
	function := "_" + strings.ReplaceAll(p.Name, "-", "_")
	var names []string
	var cases strings.Builder
	for _, n := range p.shown(model) {
		names = append(names, n.Name)
		fmt.Fprintf(&cases, "    %s) words='%s' ;;\n", n.Name, strings.Join(dashed(n), " "))
	}
	first := strings.Join(append(names, "help", "completion"), " ")
	if node := command(model, p.Default); node != nil {
		first += " " + strings.Join(dashed(node), " ")
	}
	return fmt.Sprintf(`%[1]s() {
  local words='%[2]s' cur=${COMP_WORDS[COMP_CWORD]}
  if [ "$COMP_CWORD" -gt 1 ]; then
    case ${COMP_WORDS[1]} in
%[3]s    completion) words='bash zsh fish' ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F %[1]s %[4]s
`, function, first, cases.String(), p.Name)
}

func (p *Program) fish(model *kong.Application) string {
	var b strings.Builder
	for _, n := range p.shown(model) {
		fmt.Fprintf(&b, "complete -c %s -n __fish_use_subcommand -a %s -d %s\n", p.Name, n.Name, quoted(n.Help))
		p.fishFlags(&b, n, "__fish_seen_subcommand_from "+n.Name)
	}
	if node := command(model, p.Default); node != nil {
		p.fishFlags(&b, node, "__fish_use_subcommand")
	}
	return b.String()
}

func (p *Program) fishFlags(b *strings.Builder, n *kong.Node, when string) {
	for _, f := range n.Flags {
		if f.Hidden {
			continue
		}
		takes := " -r"
		if f.IsBool() {
			takes = ""
		}
		fmt.Fprintf(b, "complete -c %s -n %s -l %s%s -d %s\n", p.Name, quoted(when), f.Name, takes, quoted(f.Help))
	}
}

func dashed(n *kong.Node) (flags []string) {
	for _, f := range n.Flags {
		if !f.Hidden {
			flags = append(flags, "--"+f.Name)
		}
	}
	return flags
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `\'`) + "'" }
