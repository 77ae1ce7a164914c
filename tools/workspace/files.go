package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// ErrIrregular is wrapped by the error of opening something other than a regular file or a directory: a pipe, a
// socket or a device, which may block forever. Checking before opening is not enough, because a command in the same
// workspace may create a pipe in between.
var ErrIrregular = errors.New("not a regular file")

// files is the file system of an area, with the workspace's checks.
type files struct {
	w    *Workspace
	area *area
}

var (
	_ fs.StatFS     = files{}
	_ fs.ReadLinkFS = files{}
)

// errEscapes is the error for a link that leads out of an area.
var errEscapes = errors.New("path escapes from parent")

// at calls use with the place of a name.
func (f files) at(name string, use func(*place) error) error {
	if !fs.ValidPath(name) {
		return &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	var err error
	for range maxChanges {
		if err = f.once(name, use); !errors.Is(err, errChanged) {
			break
		}
	}
	err = f.w.worded(name, err)
	if denied := (*DeniedError)(nil); errors.As(err, &denied) {
		denied.Path = filepath.Join(f.area.name(), filepath.FromSlash(name))
	}
	return err
}

func (f files) once(name string, use func(*place) error) error {
	walk := walk{ctx: context.Background(), why: toRead} // the depth of the tree limits the number of components
	p, jump, err := walk.below(f.area, string(filepath.Separator)+filepath.FromSlash(name))
	switch {
	case err != nil:
		return err
	case jump != "":
		return errEscapes
	}
	defer p.close()
	return use(p)
}

func (f files) open(name string) (file *os.File, err error) {
	err = f.at(name, func(p *place) (err error) {
		file, err = p.open(os.O_RDONLY, 0, f.w.private)
		return err
	})
	return file, err
}

func (f files) Open(name string) (fs.File, error) {
	file, err := f.open(name)
	if err != nil {
		return nil, err
	}
	return file, nil
}

func (f files) Stat(name string) (info fs.FileInfo, err error) {
	err = f.at(name, func(p *place) error { info = p.info; return nil })
	return info, err
}

func (f files) Lstat(name string) (info fs.FileInfo, err error) {
	err = f.parent(name, func(dir *os.Root) (err error) {
		info, err = dir.Lstat(path.Base(name))
		return err
	})
	return info, err
}

func (f files) ReadLink(name string) (target string, err error) {
	err = f.parent(name, func(dir *os.Root) (err error) {
		target, err = dir.Readlink(path.Base(name))
		return err
	})
	return target, err
}

// parent calls use with the directory of a name.
func (f files) parent(name string, use func(*os.Root) error) error {
	if !fs.ValidPath(name) {
		return &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return f.at(path.Dir(name), func(p *place) error {
		if err := p.directory(); err != nil {
			return err
		}
		if err := p.enter(); err != nil {
			return err
		}
		dir, err := p.last()
		if err != nil {
			return err
		}
		return use(dir)
	})
}
