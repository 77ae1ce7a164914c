package workspace

import (
	"path/filepath"
	"strings"
)

// Resolve turns a path as written by a model into an absolute one: it drops one leading @ (people mention files that
// way), replaces unusual spaces by plain ones, expands ~ to the home directory, and resolves relative paths against
// the working directory. An absolute path is returned unchanged.
func (w *Workspace) Resolve(path string) string {
	path = strings.TrimPrefix(path, "@")
	path = strings.Map(plainSpace, path)
	switch {
	case w.home == "":
	case path == "~":
		path = w.home
	case strings.HasPrefix(path, "~/"):
		path = w.home + path[1:]
	}
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(w.dir, path)
}

func plainSpace(r rune) rune {
	switch {
	case r == 0xA0, r >= 0x2000 && r <= 0x200A, r == 0x202F, r == 0x205F, r == 0x3000:
		return ' '
	}
	return r
}
