package workspace

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
)

// Open opens a file or directory for reading. The path must be absolute; see [Workspace.Resolve]. Like all methods
// that open files, it returns an error that wraps [ErrIrregular] for anything else.
func (w *Workspace) Open(ctx context.Context, path string) (*os.File, error) {
	return w.open(ctx, path, toRead, os.O_RDONLY, 0)
}

// Stat describes the target of an absolute path, following links. The target may be a private file or the directory
// of a store.
func (w *Workspace) Stat(ctx context.Context, path string) (info fs.FileInfo, err error) {
	err = w.at(ctx, path, toRead, func(p *place) error { info = p.info; return nil })
	return info, err
}

// OpenFile opens the target of an absolute path with the flags of [os.OpenFile], also for writing. It follows links,
// including one to a file that does not exist yet. The single files of [Options] cannot be written.
func (w *Workspace) OpenFile(ctx context.Context, path string, flag int, perm fs.FileMode) (*os.File, error) {
	return w.open(ctx, path, toWrite, flag, perm)
}

func (w *Workspace) open(ctx context.Context, path string, why purpose, flag int, perm fs.FileMode,
) (file *os.File, err error) {
	err = w.at(ctx, path, why, func(p *place) (err error) {
		file, err = p.open(flag, perm, w.private)
		return err
	})
	return file, err
}

// MkdirAll creates a directory and its missing parents. The error wraps [fs.ErrExist] if a file of another kind has
// the name.
func (w *Workspace) MkdirAll(ctx context.Context, path string, perm fs.FileMode) error {
	return w.at(ctx, path, toWrite, func(p *place) error { return p.mkdirAll(perm) })
}

// FS returns the files of the directory that an absolute path is confined to, and the name of the path's target in
// it. Links are followed if they stay inside; nothing outside can be opened. The FS belongs to the workspace and
// cannot be used after [Workspace.Close].
func (w *Workspace) FS(ctx context.Context, path string) (below fs.FS, name string, err error) {
	err = w.at(ctx, path, toRead, func(p *place) error {
		below, name = files{w, p.area}, filepath.ToSlash(p.rel())
		return nil
	})
	return below, name, err
}

// Exclusive runs f while no other call of Exclusive runs for the target of an absolute path, which need not exist.
// Calls for the same file run in the order of arrival. It returns the error of f, the error of an invalid path, or
// the cause of a context that ended while it waited. It does not lock out other processes.
func (w *Workspace) Exclusive(ctx context.Context, path string, f func() error) error {
	var key string
	err := w.at(ctx, path, toWrite, func(p *place) error {
		key = filepath.Join(p.area.name(), p.rel())
		return nil
	})
	if err != nil {
		return err
	}
	return w.queue.run(ctx, key, f)
}

// Queued returns how many calls of [Workspace.Exclusive] have entered the queue of their file so far. A test can wait
// for it to grow before starting a call that must come later.
func (w *Workspace) Queued() uint64 { return w.queue.entered.Load() }
