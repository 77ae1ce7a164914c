package prompt

import (
	"path"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// skillPrefix starts a prompt that requests a skill: /skill:name and what to do with it.
const skillPrefix = "skill:"

// MaxExpanded is how many bytes an expanded prompt may have: twice as many as a command. A command of a few hundred
// bytes becomes as large, at once in many sessions, and a template may repeat its arguments thousands of times.
const MaxExpanded = 1 << 20

// Expand expands a prompt "/name arguments" or "/skill:name arguments", and returns the file that the expansion came
// from. ok is false if the text names neither a template nor a skill of r, as a path does, and if the expansion would
// be longer than MaxExpanded: then the prompt stays as it is.
func Expand(text string, r schemas.Resources) (expanded string, of schemas.PromptSource, ok bool) {
	rest, slash := strings.CutPrefix(text, "/")
	if !slash {
		return text, of, false
	}
	name, args := rest, ""
	if i := strings.IndexAny(rest, " \t\r\n"); i >= 0 {
		name, args = rest[:i], strings.TrimSpace(rest[i:])
	}
	if skill, asked := strings.CutPrefix(name, skillPrefix); asked {
		for _, s := range r.Skills {
			if s.Name == skill {
				return skillPrompt(s, args), source(schemas.ResourceSkill, s.Name, s.Resource), true
			}
		}
		return text, of, false
	}
	for _, t := range r.Templates {
		if t.Name != name {
			continue
		}
		if expanded, ok = substitute(t.Text, words(args), MaxExpanded); !ok {
			return text, of, false
		}
		return expanded, source(schemas.ResourceTemplate, t.Name, t.Resource), true
	}
	return text, of, false
}

// skillPrompt returns the prompt with a skill's text, followed by the user's arguments.
func skillPrompt(s schemas.Skill, args string) string {
	text := `<skill name="` + escape(s.Name) + `" location="` + escape(s.Path) + `">` + "\nReferences are relative to " +
		path.Dir(s.Path) + ".\n\n" + strings.TrimSpace(s.Text) + "\n</skill>"
	if args != "" {
		text += "\n\n" + args
	}
	return text
}
