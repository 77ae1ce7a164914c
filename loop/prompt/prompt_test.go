package prompt_test

import (
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/loop/prompt"
	"github.com/loopbus/loopbus/schemas"
)

var workspace = schemas.Resources{
	Directory: "/srv/web",
	Context: []schemas.Resource{{Path: "AGENTS.md", SHA256: "a1", Text: "\nBe kind.\n"},
		{Path: "web/CLAUDE.md", SHA256: "a2", Text: "Be brief."}},
	Skills: []schemas.Skill{
		{Name: "pdf", Description: "Fill in <forms> & more", Resource: schemas.Resource{Path: ".agents/skills/pdf/SKILL.md",
			SHA256: "b1", Text: "Use pdftk.\n"}},
		{Name: "deploy", Description: "Deploy", Manual: true, Resource: schemas.Resource{Path: "s/SKILL.md", SHA256: "b2"}},
	},
	Templates: []schemas.Template{{Name: "review", Resource: schemas.Resource{Path: ".agents/prompts/review.md",
		SHA256: "c1", Text: "Review $1 for ${@:2}."}}},
}

func TestSystemPrompt(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 23, 59, 0, 0, time.UTC)
	got, sources := prompt.System("You are Ada.", workspace, true, at)
	want := `You are Ada.

# Project Context

Instructions of this project, in the order of their directories:

## AGENTS.md

Be kind.

## web/CLAUDE.md

Be brief.

Skills are instructions for particular tasks. When a task matches the description of one, read the file at its ` +
		`location first. Paths in the file are relative to its directory.

<available_skills>
  <skill>
    <name>pdf</name>
    <description>Fill in &lt;forms&gt; &amp; more</description>
    <location>.agents/skills/pdf/SKILL.md</location>
  </skill>
</available_skills>

Current date: 2026-11-23
Current working directory: /srv/web`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	var names []string
	for _, s := range sources {
		names = append(names, string(s.Kind)+":"+s.Name+":"+s.Path+":"+s.SHA256)
	}
	if got, want := strings.Join(names, " "), "context::AGENTS.md:a1 context::web/CLAUDE.md:a2 "+
		"skill:pdf:.agents/skills/pdf/SKILL.md:b1"; got != want {
		t.Errorf("sources %s, want %s", got, want)
	}
}

// A model that cannot read files is offered no skill, and a workspace without resources leaves the prompt alone.
func TestSystemPromptOffersOnlyUsableSkills(t *testing.T) {
	t.Parallel()
	got, sources := prompt.System("", workspace, false, time.Now())
	if strings.Contains(got, "skill") || !strings.HasPrefix(got, "# Project Context") || len(sources) != 2 {
		t.Errorf("without read: %d sources in:\n%s", len(sources), got)
	}
	if got, sources := prompt.System("base", schemas.Resources{Directory: "/srv"}, true, time.Now()); got != "base" ||
		sources != nil {
		t.Errorf("without resources: %q, %v", got, sources)
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want, path string }{
		{`/review "my file.go" races and leaks`, "Review my file.go for races and leaks.", ".agents/prompts/review.md"},
		{"/review\nmain.go", "Review main.go for .", ".agents/prompts/review.md"},
		{"/skill:pdf fill in a.pdf", `<skill name="pdf" location=".agents/skills/pdf/SKILL.md">` +
			"\nReferences are relative to .agents/skills/pdf.\n\nUse pdftk.\n</skill>\n\nfill in a.pdf",
			".agents/skills/pdf/SKILL.md"},
		{"/skill:deploy", "<skill name=\"deploy\" location=\"s/SKILL.md\">\nReferences are relative to s.\n\n\n</skill>",
			"s/SKILL.md"},
		{"/usr/bin/env is missing", "/usr/bin/env is missing", ""},
		{"/skill:unknown x", "/skill:unknown x", ""},
		{" /review x", " /review x", ""},
		{"/", "/", ""},
		{"", "", ""},
	} {
		got, of, ok := prompt.Expand(c.text, workspace)
		if got != c.want || of.Path != c.path || ok != (c.path != "") {
			t.Errorf("%q: got %q of %q (%t), want %q of %q", c.text, got, of.Path, ok, c.want, c.path)
		}
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ template, args, want string }{
		{"$1-$2-$3", "a b", "a-b-"},
		{"$10$1", "a b c d e f g h i j", "ja"},
		{"$0|$@|$ARGUMENTS", "a  b\tc", "|a b c|a b c"},
		{"${@:2}|${@:2:1}|${@:0:1}|${@:9}|${@:1:9}", "a b c", "b c|b|a||a b c"},
		{"$1", "'$2 $@' b", "$2 $@"},
		{"$1|$2", `"a 'b'" 'c "d`, `a 'b'|c "d`},
		{"$99999999999999999999", "a", ""},
		{"$", "a", "$"},
		{"costs $x", "a", "costs $x"},
	} {
		r := schemas.Resources{Templates: []schemas.Template{{Name: "t", Resource: schemas.Resource{Text: c.template}}}}
		if got, _, _ := prompt.Expand("/t "+c.args, r); got != c.want {
			t.Errorf("%q with %q: got %q, want %q", c.template, c.args, got, c.want)
		}
	}
}

// The expansion of a template is bounded: a client that may send to a session, and whose agent may write a file in its
// workspace, must not fill the runner's memory.
func TestExpansionIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a ", 100_000)
	for _, place := range []string{"$@", "$ARGUMENTS", "${@:1}", "$1", "${@:1:1}"} {
		r := schemas.Resources{Templates: []schemas.Template{{Name: "t", Resource: schemas.Resource{
			Text: strings.Repeat(place, 6_000)}}}}
		for _, text := range []string{"/t " + long, "/t '" + long + "'"} {
			got, _, ok := prompt.Expand(text, r)
			if ok && len(got) > prompt.MaxExpanded || !ok && got != text {
				t.Errorf("%s: %d bytes, expanded: %t", place, len(got), ok)
			}
			if strings.HasPrefix(place, "$@") && ok {
				t.Errorf("%s: %d bytes are not too many", place, len(got))
			}
		}
	}
	r := schemas.Resources{Templates: []schemas.Template{{Name: "t", Resource: schemas.Resource{Text: "$@ $@"}}}}
	if got, _, ok := prompt.Expand("/t "+long, r); !ok || len(got) < 2*len(long)-10 {
		t.Errorf("a prompt that fits: %d bytes, %t", len(got), ok)
	}
}
