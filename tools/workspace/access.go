package workspace

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Open opens a file or directory for reading. The path must be absolute, see [Workspace.Resolve]. What is neither is an
// error that wraps [ErrIrregular], as it is for all methods that open.
func (w *Workspace) Open(ctx context.Context, path string) (*os.File, error) {
	a, rel, err := w.locate(ctx, path, toRead)
	if err != nil {
		return nil, err
	}
	return open(a.root, rel, os.O_RDONLY, 0)
}

// Stat describes the file that an absolute path leads to, links followed.
func (w *Workspace) Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	a, rel, err := w.locate(ctx, path, toRead)
	if err != nil {
		return nil, err
	}
	return a.root.Stat(rel)
}

// OpenFile opens the file that an absolute path leads to, for writing too, with the flags of [os.OpenFile]. Links are
// followed, also one to a file that is still to be made. The single files of [Options] cannot be written.
func (w *Workspace) OpenFile(ctx context.Context, path string, flag int, perm fs.FileMode) (*os.File, error) {
	a, rel, err := w.locate(ctx, path, toWrite)
	if err != nil {
		return nil, err
	}
	return open(a.root, rel, flag, perm)
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
	a, rel, err := w.locate(ctx, path, toWrite)
	if err != nil {
		return err
	}
	if info, err := a.root.Stat(rel); err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.EEXIST}
		}
		return nil
	}
	return a.root.MkdirAll(rel, perm)
}

// FS returns the files of the directory that an absolute path is confined to, and the name in it of what the path leads
// to. Links are followed where they stay inside; what is outside cannot be opened. The files are those of the
// workspace: they cannot be used after [Workspace.Close].
func (w *Workspace) FS(ctx context.Context, path string) (below fs.FS, name string, err error) {
	a, rel, err := w.locate(ctx, path, toRead)
	if err != nil {
		return nil, "", err
	}
	return files{a.root}, filepath.ToSlash(rel), nil
}

// Exclusive runs f while no other call of Exclusive runs for the file that an absolute path leads to; the file need not
// exist. Calls for one file are served in the order in which they came. It returns what f returns, the error of a path
// that leads nowhere, or the cause of a context that ended while it waited. Other processes are not kept out.
func (w *Workspace) Exclusive(ctx context.Context, path string, f func() error) error {
	a, rel, err := w.locate(ctx, path, toWrite)
	if err != nil {
		return err
	}
	return w.queue.run(ctx, filepath.Join(a.name(), rel), f)
}

// Queued is how many calls of [Workspace.Exclusive] have taken a place in the queue for their file so far. A test that
// starts a call after it has grown comes later.
func (w *Workspace) Queued() uint64 { return w.queue.entered.Load() }
