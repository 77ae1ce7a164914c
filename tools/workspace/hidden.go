package workspace

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/loopbus/loopbus/schemas"
)

// A secret is a private file: the one that the path led to in the beginning, wherever that has been moved, and the one
// that it leads to now.
type secret struct {
	path  string
	known fs.FileInfo // nil if there was none
}

func (s secret) is(info fs.FileInfo) bool {
	if s.known != nil && os.SameFile(s.known, info) {
		return true
	}
	now, err := os.Stat(s.path)
	return err == nil && os.SameFile(now, info)
}

// Hidden are the paths, as of now, that a sandbox has to hide, for its commands open files by themselves: the private
// files, and the stores that are directly in the root or that links there lead to. Stores deeper down are not looked
// for: a workspace may have very many directories.
func (w *Workspace) Hidden() []string {
	var paths []string
	for _, s := range w.private {
		paths = append(paths, s.path)
	}
	entries, err := os.ReadDir(w.Root())
	if err != nil { // then commands have no workspace either
		return paths
	}
	for _, e := range entries {
		path := filepath.Join(w.Root(), e.Name())
		if _, err := os.Lstat(filepath.Join(path, schemas.StoreMark)); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}
