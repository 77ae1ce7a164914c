package resources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/internal/walk"
)

// maxSummary is how much of a template's first line describes it.
const maxSummary = 60

// templates adds the prompt templates of a folder.
func (f *finder) templates(ctx context.Context, dir string) {
	visited := 0
	for e, err := range walk.Entries(ctx, f.files, dir) {
		if visited++; visited > maxVisited {
			err = errTooMany
		}
		if err != nil || ctx.Err() != nil {
			if !errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil {
				f.omit(dir, err)
			}
			return
		}
		name, ok := strings.CutSuffix(e.Name(), ".md")
		if !ok || name == "" || e.IsDir() {
			continue
		}
		if err := f.template(path.Join(dir, e.Name()), name); err != nil {
			f.omit(path.Join(dir, e.Name()), err)
		}
	}
}

func (f *finder) template(file, name string) error {
	switch {
	case strings.ContainsFunc(name, func(r rune) bool { return r == '/' || strings.ContainsRune(" \t\r\n", r) }):
		return errors.New("its name has spaces")
	case len(name) > 128:
		return errors.New("its name is longer than 128 bytes")
	case slices.ContainsFunc(f.found.Templates, func(t schemas.Template) bool { return t.Name == name }):
		return errors.New("there is a template of this name before it")
	case len(f.found.Templates) == schemas.MaxResources:
		return fmt.Errorf("there are %d templates before it", schemas.MaxResources)
	}
	r, err := f.read(file)
	if err != nil {
		return err
	}
	m, text, err := split(r.Text)
	if err != nil {
		return err
	}
	r.Text = text
	f.found.Templates = append(f.found.Templates, schemas.Template{Resource: r, Name: name,
		Description: summary(m.Description, text)})
	return nil
}

// summary returns the description of a template, otherwise its first line, shortened for a list.
func summary(description, text string) string {
	if description != "" {
		return cut(description, maxDescription)
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return cut(line, maxSummary)
		}
	}
	return ""
}

// cut shortens a text to n characters.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-3]) + "..."
	}
	return s
}
