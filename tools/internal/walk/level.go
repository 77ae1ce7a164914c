package walk

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/loopbus/loopbus/tools/internal/ignore"
)

const (
	// maxIgnoreFiles limits the bytes of the ignore files that apply to one directory: of those in it and in its parents.
	// Their rules are in memory at the same time.
	maxIgnoreFiles = 1 << 20
	// maxRules limits their lines: a rule takes some 200 bytes, a line may have two, and many calls search at once.
	maxRules = 1 << 15
)

// The kinds of ignore files, in the order in which they decide.
const (
	dotIgnore = iota
	dotGitignore
	gitExclude
	kinds
)

// A level has the rules of the ignore files of a directory, and a link to the level of its parent directories.
type level struct {
	dir   string // in the file system
	rules [kinds]ignore.Rules
	top   bool // dir is the top directory of a repository
	read  int  // bytes of the ignore files of this level and of those above
	lines int  // of these files
	up    *level
}

// isIgnoreFile reports whether a directory with such an entry may have rules.
func isIgnoreFile(name string) bool {
	return name == ".ignore" || name == ".gitignore" || name == ".git"
}

// level reads the ignore files of a directory. It returns up if the directory has none.
func (w walker) level(dir string, up *level, has func(name string) bool) *level {
	l := &level{dir: dir, up: up}
	if up != nil {
		l.read, l.lines = up.read, up.lines
	}
	if has(".ignore") {
		w.rules(l, dotIgnore, ".ignore")
	}
	if has(".gitignore") {
		w.rules(l, dotGitignore, ".gitignore")
	}
	if has(".git") {
		l.top = true
		w.rules(l, gitExclude, ".git/info/exclude")
	}
	if l.rules[dotIgnore] == nil && l.rules[dotGitignore] == nil && !l.top {
		return up
	}
	return l
}

// rules reads an ignore file of a level. It skips a file that cannot be read, or that would exceed maxIgnoreFiles or
// maxRules.
func (w walker) rules(l *level, kind int, name string) {
	name = path.Join(l.dir, name)
	// Opening a named pipe would wait for a writer, perhaps forever.
	if info, err := fs.Stat(w.FS, name); err != nil || !info.Mode().IsRegular() {
		return
	}
	file, err := w.FS.Open(name)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }() // nothing was written
	room := maxIgnoreFiles - l.read
	text, err := io.ReadAll(io.LimitReader(file, int64(room)+1))
	lines := bytes.Count(text, []byte("\n"))
	if err != nil || len(text) > room || l.lines+lines > maxRules {
		return
	}
	l.read, l.lines = l.read+len(text), l.lines+lines
	l.rules[kind] = ignore.Parse(string(text))
}

// above reads the levels of the parents of a directory.
func (w walker) above(dir string) *level {
	if dir == "." {
		return nil
	}
	dir = path.Dir(dir)
	return w.level(dir, w.above(dir), func(name string) bool {
		_, err := fs.Stat(w.FS, path.Join(dir, name))
		return err == nil
	})
}

// verdict returns the verdict of this level and those above on a path of the file system.
func (l *level) verdict(ctx context.Context, name string, isDir bool) ignore.Verdict {
	var verdicts [kinds]ignore.Verdict
	inside := true // l is in the repository of name, or name is in none
	for ; l != nil; l = l.up {
		rel := name
		if l.dir != "." {
			rel = strings.TrimPrefix(name, l.dir+"/")
		}
		for kind := range verdicts {
			if verdicts[kind] == ignore.Silent && (inside || kind == dotIgnore) {
				verdicts[kind] = l.rules[kind].Match(ctx, rel, isDir)
			}
		}
		inside = inside && !l.top
	}
	for _, v := range verdicts {
		if v != ignore.Silent {
			return v
		}
	}
	return ignore.Silent
}
