package prompt

import (
	"encoding/xml"
	"strings"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// System returns the system prompt of a run: base, then the context files, then, if the model can read files, the
// skills that it may choose, then the date and the directory, which change most often. It has no time of day, so that
// vendors' caches keep the prompt for a day. sources are the files in it, in order. Without resources it is base.
func System(
	base string,
	r schemas.Resources,
	canRead bool,
	now time.Time,
) (text string, sources []schemas.PromptSource) {
	if r.Empty() {
		return base, nil
	}
	var b strings.Builder
	b.WriteString(base)
	if len(r.Context) > 0 {
		section(&b, "# Project Context\n\nInstructions of this project, in the order of their directories:")
		for _, f := range r.Context {
			section(&b, "## "+f.Path+"\n\n"+strings.TrimSpace(f.Text))
			sources = append(sources, source(schemas.ResourceContext, "", f))
		}
	}
	if canRead {
		sources = append(sources, skills(&b, r.Skills)...)
	}
	section(&b, "Current date: "+now.UTC().Format(time.DateOnly)+"\nCurrent working directory: "+r.Directory)
	return b.String(), sources
}

// section starts a paragraph.
func section(b *strings.Builder, text string) {
	if b.Len() > 0 {
		b.WriteString("\n\n")
	}
	b.WriteString(text)
}

// skills lists the skills that the model may choose by itself.
func skills(b *strings.Builder, all []schemas.Skill) (sources []schemas.PromptSource) {
	var list strings.Builder
	for _, s := range all {
		if s.Manual {
			continue
		}
		list.WriteString("\n  <skill>")
		for _, member := range [][2]string{{"name", s.Name}, {"description", s.Description}, {"location", s.Path}} {
			list.WriteString("\n    <" + member[0] + ">" + escape(member[1]) + "</" + member[0] + ">")
		}
		list.WriteString("\n  </skill>")
		sources = append(sources, source(schemas.ResourceSkill, s.Name, s.Resource))
	}
	if len(sources) > 0 {
		section(b, "Skills are instructions for particular tasks. When a task matches the description of one, read the "+
			"file at its location first. Paths in the file are relative to its directory.\n\n<available_skills>"+
			list.String()+"\n</available_skills>")
	}
	return sources
}

func source(kind schemas.ResourceKind, name string, f schemas.Resource) schemas.PromptSource {
	return schemas.PromptSource{Kind: kind, Path: f.Path, SHA256: f.SHA256, Name: name}
}

// escape escapes a text for an XML element or attribute.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder returns no error
	return b.String()
}
