package workspace

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// A secret is a private file: both the file that the path led to when the workspace was opened, even if it was moved,
// and the file that the path leads to now.
type secret struct {
	path  string
	known fs.FileInfo // the file at the start, nil if there was none
}

func (s secret) is(info fs.FileInfo) bool {
	if s.known != nil && os.SameFile(s.known, info) {
		return true
	}
	now, err := os.Stat(s.path)
	return err == nil && os.SameFile(now, info)
}

// Hidden returns the paths that a sandbox must hide now, because its commands open files themselves: the private
// files, and the stores directly in the root or reached from there by links. It does not search for stores deeper
// down, because a workspace may have very many directories.
func (w *Workspace) Hidden() (private, stores []string) {
	for _, s := range w.private {
		private = append(private, s.path)
	}
	return private, w.stores()
}

// stores returns the stores directly in the root, in order. It reads the names piece by piece: there may be very many.
func (w *Workspace) stores() (paths []string) {
	const atOnce = 1024
	root, err := os.Open(w.Root())
	if err != nil { // commands cannot use the workspace either
		return nil
	}
	defer func() { _ = root.Close() }() // nothing was written
	for err == nil {
		var names []string
		names, err = root.Readdirnames(atOnce)
		for _, name := range names {
			path := filepath.Join(w.Root(), name)
			if _, err := os.Lstat(filepath.Join(path, schemas.StoreMark)); err == nil {
				paths = append(paths, path)
			}
		}
	}
	slices.Sort(paths)
	return paths
}
