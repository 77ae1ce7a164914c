package workspace

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
)

// Open opens a file or directory for reading. The path must be absolute, see [Workspace.Resolve]. What is neither is an
// error that wraps [ErrIrregular], as it is for all methods that open.
func (w *Workspace) Open(ctx context.Context, path string) (*os.File, error) {
	return w.open(ctx, path, toRead, os.O_RDONLY, 0)
}

// Stat describes the file that an absolute path leads to, links followed. It may be a private file, or the directory of
// a store.
func (w *Workspace) Stat(ctx context.Context, path string) (info fs.FileInfo, err error) {
	err = w.at(ctx, path, toRead, func(p *place) error { info = p.info; return nil })
	return info, err
}

// OpenFile opens the file that an absolute path leads to, for writing too, with the flags of [os.OpenFile]. Links are
// followed, also one to a file that is still to be made. The single files of [Options] cannot be written.
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

// Replace makes data the whole content of a file that is open for writing. It is written in place: mode, owner and hard
// links stay. A process that is killed meanwhile may leave a part of it.
func Replace(file *os.File, data []byte) error {
	if _, err := file.WriteAt(data, 0); err != nil {
		return err
	}
	return file.Truncate(int64(len(data)))
}

// MkdirAll makes a directory and those above it that are missing. It is an error wrapping [fs.ErrExist] if something
// else has the name.
func (w *Workspace) MkdirAll(ctx context.Context, path string, perm fs.FileMode) error {
	return w.at(ctx, path, toWrite, func(p *place) error { return p.mkdirAll(perm) })
}

// FS returns the files of the directory that an absolute path is confined to, and the name in it of what the path leads
// to. Links are followed where they stay inside; what is outside cannot be opened. The files are those of the
// workspace: they cannot be used after [Workspace.Close].
func (w *Workspace) FS(ctx context.Context, path string) (below fs.FS, name string, err error) {
	err = w.at(ctx, path, toRead, func(p *place) error {
		below, name = files{w, p.area}, filepath.ToSlash(p.rel())
		return nil
	})
	return below, name, err
}

// Exclusive runs f while no other call of Exclusive runs for the file that an absolute path leads to; the file need not
// exist. Calls for one file are served in the order in which they came. It returns what f returns, the error of a path
// that leads nowhere, or the cause of a context that ended while it waited. Other processes are not kept out.
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

// Queued is how many calls of [Workspace.Exclusive] have taken a place in the queue for their file so far. A test that
// starts a call after it has grown comes later.
func (w *Workspace) Queued() uint64 { return w.queue.entered.Load() }
