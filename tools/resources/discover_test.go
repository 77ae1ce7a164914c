package resources_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/resources"
)

// directory makes files; their texts by name.
func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// discover looks through a directory, and wants what it finds to be an announcement that is valid.
func discover(t *testing.T, dir string) schemas.Resources {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	r, err := resources.Discover(t.Context(), root.FS())
	if err != nil {
		t.Fatal(err)
	}
	r.Worker, r.Since, r.Directory = "w1", "2026-01-01T00:00:00Z", dir
	payload, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := schemas.ParseResources(payload); err != nil {
		t.Fatal(err)
	}
	return r
}

const skill = "---\nname: %s\ndescription: Does %s\n---\n\nDo it.\n"

func TestDiscover(t *testing.T) {
	t.Parallel()
	got := discover(t, directory(t, map[string]string{
		"AGENTS.md":                            "Be kind.",
		"CLAUDE.md":                            "not read: there is AGENTS.md",
		"sub/AGENTS.md":                        "not read: no tool works there",
		".agents/skills/pdf/SKILL.md":          fmt.Sprintf(skill, "pdf", "pdf"),
		".agents/skills/pdf/forms/SKILL.md":    fmt.Sprintf(skill, "forms", "forms"),
		".agents/skills/node_modules/SKILL.md": "ignored",
		".agents/skills/.gitignore":            "node_modules\n",
		".pi/skills/pdf/SKILL.md":              fmt.Sprintf(skill, "pdf", "other"),
		".pi/skills/deploy/SKILL.md": "---\r\ndescription: Deploys\r\ndisable-model-invocation: true\r\n" +
			"---\r\nGo.\r\n",
		".agents/prompts/review.md": "---\ndescription: Review\n---\nReview $1.\n",
		".pi/prompts/review.md":     "another",
		".pi/prompts/long.md":       "\n\n" + strings.Repeat("x", 80) + "\nmore",
		".pi/prompts/notes.txt":     "not a template",
	}))
	want := "context AGENTS.md: Be kind.\n" +
		"skill pdf .agents/skills/pdf/SKILL.md manual=false: Does pdf: Do it.\n" +
		"skill deploy .pi/skills/deploy/SKILL.md manual=true: Deploys: Go.\n" +
		"template review: Review: Review $1.\n" +
		"template long: " + strings.Repeat("x", 57) + "...: \n\n" + strings.Repeat("x", 80) + "\nmore\n" +
		"omitted .pi/skills/pdf/SKILL.md: there is a skill of this name before it\n" +
		"omitted .pi/prompts/review.md: there is a template of this name before it\n"
	if got := list(got); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	sum := sha256.Sum256([]byte("Be kind."))
	if h := got.Context[0].SHA256; h != hex.EncodeToString(sum[:]) {
		t.Errorf("hash %q", h)
	}
}

// list shows resources a line each.
func list(r schemas.Resources) string {
	var b strings.Builder
	for _, f := range r.Context {
		fmt.Fprintf(&b, "context %s: %s\n", f.Path, f.Text)
	}
	for _, s := range r.Skills {
		fmt.Fprintf(&b, "skill %s %s manual=%t: %s: %s\n", s.Name, s.Path, s.Manual, s.Description,
			strings.TrimSpace(s.Text))
	}
	for _, s := range r.Templates {
		fmt.Fprintf(&b, "template %s: %s: %s\n", s.Name, s.Description, strings.TrimSuffix(s.Text, "\n"))
	}
	for _, o := range r.Omitted {
		fmt.Fprintf(&b, "omitted %s: %s\n", o.Path, o.Reason)
	}
	return b.String()
}

// Whatever lies in the directory, what is announced is bounded, and says what is missing.
func TestDiscoverOmits(t *testing.T) {
	t.Parallel()
	outside := directory(t, map[string]string{"secret": "s3cret"})
	big := strings.Repeat("x", schemas.MaxResourceFile+1)
	for name, c := range map[string]struct {
		files  map[string]string
		link   string // to what is outside
		path   string
		reason string
	}{
		"large": {map[string]string{"AGENTS.md": big}, "", "AGENTS.md", "it is larger than 65536 bytes"},
		"no text": {map[string]string{"AGENTS.md": "\xff\xfe"}, "", "AGENTS.md",
			"it is no text in UTF-8"},
		"a directory": {map[string]string{"AGENTS.md/x": ""}, "", "AGENTS.md", "it is no regular file"},
		"leads out":   {nil, "AGENTS.md", "AGENTS.md", "path escapes from parent"},
		"no description": {map[string]string{".pi/skills/a/SKILL.md": "x"}, "", ".pi/skills/a/SKILL.md",
			"it has no description"},
		"another name": {map[string]string{".pi/skills/a/SKILL.md": fmt.Sprintf(skill, "b", "b")}, "",
			".pi/skills/a/SKILL.md", `it is named "b", its folder "a"`},
		"bad name": {map[string]string{".pi/skills/A_b/SKILL.md": "---\ndescription: x\n---\n"}, "",
			".pi/skills/A_b/SKILL.md",
			"a skill's name has at most 64 characters of a-z, 0-9 and single hyphens between them"},
		"front matter": {map[string]string{".pi/skills/a/SKILL.md": "---\ndescription: " +
			strings.Repeat("x", 9000) + "\n---\n"}, "", ".pi/skills/a/SKILL.md",
			"its front matter is larger than 8192 bytes"},
		"a bomb": {map[string]string{".pi/skills/a/SKILL.md": "---\na: &a [x]\nb: &b [*a, *a]\ndescription: *b\n---\n"}, "",
			".pi/skills/a/SKILL.md",
			"its front matter is no YAML: [2:4] anchors and aliases are not taken: write the value out"},
		"spaces": {map[string]string{".pi/prompts/a b.md": "x"}, "", ".pi/prompts/a b.md", "its name has spaces"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := directory(t, c.files)
			if c.link != "" {
				if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, c.link)); err != nil {
					t.Fatal(err)
				}
			}
			r := discover(t, dir)
			if !r.Empty() || len(r.Omitted) != 1 || r.Omitted[0].Path != c.path || r.Omitted[0].Reason != c.reason {
				t.Errorf("got:\n%s", list(r))
			}
		})
	}
}

func TestDiscoverIsBounded(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i := range schemas.MaxResources + 20 {
		files[fmt.Sprintf(".pi/prompts/t%03d.md", i)] = "x"
	}
	for i := range 10 {
		files[fmt.Sprintf(".agents/skills/s%d/SKILL.md", i)] = fmt.Sprintf(skill, fmt.Sprintf("s%d", i), "x") +
			strings.Repeat("y", schemas.MaxResourceFile-1000)
	}
	r := discover(t, directory(t, files))
	size := 0
	for _, s := range r.Skills {
		size += len(s.Text)
	}
	if len(r.Templates) != schemas.MaxResources || size > schemas.MaxResourceBytes || len(r.Skills) < 5 ||
		len(r.Omitted) != 20+10-len(r.Skills) {
		t.Errorf("%d templates, %d skills of %d bytes, %d omitted", len(r.Templates), len(r.Skills), size, len(r.Omitted))
	}
}

func TestDiscoverStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := resources.Discover(ctx, os.DirFS(t.TempDir())); err == nil {
		t.Error("no error")
	}
}
