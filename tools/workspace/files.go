package workspace

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// ErrIrregular is wrapped by the error of opening what is neither a regular file nor a directory: a pipe, a socket or a
// device, whose reading may never end. Looking before opening is not enough, for a command of the same workspace may
// put a pipe there in between.
var ErrIrregular = errors.New("not a regular file")

// open opens what is a regular file or a directory.
func open(root *os.Root, name string, flag int, perm fs.FileMode) (*os.File, error) {
	file, err := root.OpenFile(name, flag|nonblock, perm)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrIrregular}
	}
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, err
	}
	return file, nil
}

// files are those of an area. Only what open opens can be opened.
type files struct{ root *os.Root }

var (
	_ fs.StatFS     = files{}
	_ fs.ReadDirFS  = files{}
	_ fs.ReadLinkFS = files{}
)

func (f files) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	file, err := open(f.root, name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return file, nil
}

func (f files) ReadDir(name string) ([]fs.DirEntry, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	dir, err := open(f.root, name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // nothing was written
	list, err := dir.ReadDir(-1)
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, err
}

func (f files) Stat(name string) (fs.FileInfo, error) { return fs.Stat(f.root.FS(), name) }

func (f files) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(f.root.FS(), name) }

func (f files) ReadLink(name string) (string, error) { return fs.ReadLink(f.root.FS(), name) }
