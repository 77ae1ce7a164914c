package resources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/internal/walk"
)

const (
	skillFile      = "SKILL.md"
	maxDescription = 1024 // characters
)

// skillName matches valid names of skills.
var skillName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

var errTooMany = fmt.Errorf("there are more than %d files", maxVisited)

// skills adds the skills below a folder.
func (f *finder) skills(ctx context.Context, dir string) {
	visited := 0
	err := walk.Run(ctx, walk.Options{FS: f.files, Start: dir, Visit: func(rel string, e fs.DirEntry) error {
		if visited++; visited > maxVisited {
			return errTooMany
		}
		if e.Name() != skillFile || f.insideSkill(ctx, dir, path.Dir(path.Dir(rel))) {
			return nil
		}
		if err := f.skill(path.Join(dir, rel)); err != nil {
			f.omit(path.Join(dir, rel), err)
		}
		return nil
	}})
	if err != nil && !errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil {
		f.omit(dir, err)
	}
}

// insideSkill reports whether a folder below dir is inside of a skill: its files belong to that skill.
func (f *finder) insideSkill(ctx context.Context, dir, rel string) bool {
	for ; ctx.Err() == nil; rel = path.Dir(rel) {
		if _, err := fs.Stat(f.files, path.Join(dir, rel, skillFile)); err == nil || rel == "." {
			return err == nil
		}
	}
	return false
}

func (f *finder) skill(file string) error {
	r, err := f.read(file)
	if err != nil {
		return err
	}
	m, text, err := split(r.Text)
	folder := path.Base(path.Dir(file))
	switch {
	case err != nil:
		return err
	case m.Name != "" && m.Name != folder:
		return fmt.Errorf("it is named %.100q, its folder %.100q", m.Name, folder)
	case len(folder) > 64 || !skillName.MatchString(folder):
		return errors.New("a skill's name has at most 64 characters of a-z, 0-9 and single hyphens between them")
	case m.Description == "":
		return errors.New("it has no description")
	case len([]rune(m.Description)) > maxDescription:
		return fmt.Errorf("its description is longer than %d characters", maxDescription)
	case slices.ContainsFunc(f.found.Skills, func(s schemas.Skill) bool { return s.Name == folder }):
		return errors.New("there is a skill of this name before it")
	case len(f.found.Skills) == schemas.MaxResources:
		return fmt.Errorf("there are %d skills before it", schemas.MaxResources)
	}
	r.Text = text
	f.found.Skills = append(f.found.Skills,
		schemas.Skill{Resource: r, Name: folder, Description: m.Description, Manual: m.Manual})
	return nil
}
