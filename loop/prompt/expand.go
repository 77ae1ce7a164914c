package prompt

import (
	"path"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// skillPrefix is how a prompt asks for a skill: /skill:name and what is to be done.
const skillPrefix = "skill:"

// Expand returns the prompt that "/name arguments" and "/skill:name arguments" stand for, and the file it is of. ok is
// false for a text that names neither a template nor a skill of r, such as a path, and for one that would become longer
// than an input may be ([schemas.MaxInputBytes]): it stays what it is.
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
		if expanded, ok = substitute(t.Text, words(args), schemas.MaxInputBytes); !ok {
			return text, of, false
		}
		return expanded, source(schemas.ResourceTemplate, t.Name, t.Resource), true
	}
	return text, of, false
}

// skillPrompt returns the prompt that shows a skill, with the user's arguments behind it.
func skillPrompt(s schemas.Skill, args string) string {
	text := `<skill name="` + escape(s.Name) + `" location="` + escape(s.Path) + `">` + "\nReferences are relative to " +
		path.Dir(s.Path) + ".\n\n" + strings.TrimSpace(s.Text) + "\n</skill>"
	if args != "" {
		text += "\n\n" + args
	}
	return text
}
