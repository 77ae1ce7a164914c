package walk

import (
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/loopbus/loopbus/tools/internal/ignore"
)

// maxIgnoreFile is how many bytes of an ignore file are read.
const maxIgnoreFile = 1 << 20

// The kinds of ignore files, the one that decides first.
const (
	dotIgnore = iota
	dotGitignore
	gitExclude
	kinds
)

// A level is what the ignore files of a directory say, and those of the directories above.
type level struct {
	dir   string // in the file system
	rules [kinds]ignore.Rules
	top   bool // of a repository
	up    *level
}

// level reads the ignore files of a directory. A level that says nothing new is left out.
func (w walker) level(dir string, up *level, has func(name string) bool) *level {
	l := &level{dir: dir, up: up}
	if has(".ignore") {
		l.rules[dotIgnore] = w.rules(path.Join(dir, ".ignore"))
	}
	if has(".gitignore") {
		l.rules[dotGitignore] = w.rules(path.Join(dir, ".gitignore"))
	}
	if has(".git") {
		l.top = true
		l.rules[gitExclude] = w.rules(path.Join(dir, ".git/info/exclude"))
	}
	if l.rules[dotIgnore] == nil && l.rules[dotGitignore] == nil && !l.top {
		return up
	}
	return l
}

// rules reads an ignore file. One that cannot be read says nothing.
func (w walker) rules(name string) ignore.Rules {
	// Opening a pipe waits for a writer, perhaps for ever.
	if info, err := fs.Stat(w.FS, name); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	file, err := w.FS.Open(name)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(file, maxIgnoreFile))
	if err != nil {
		return nil
	}
	return ignore.Parse(string(text))
}

// above reads the levels above a directory.
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

// verdict is what the levels say of a path of the file system.
func (l *level) verdict(name string, isDir bool) ignore.Verdict {
	var said [kinds]ignore.Verdict
	inside := true // of the repository, if there is one
	for ; l != nil; l = l.up {
		rel := name
		if l.dir != "." {
			rel = strings.TrimPrefix(name, l.dir+"/")
		}
		for kind := range said {
			if said[kind] == ignore.Silent && (inside || kind == dotIgnore) {
				said[kind] = l.rules[kind].Match(rel, isDir)
			}
		}
		inside = inside && !l.top
	}
	for _, v := range said {
		if v != ignore.Silent {
			return v
		}
	}
	return ignore.Silent
}
