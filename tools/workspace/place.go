package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// A place is the target of a path. Its directories are open until it is closed.
type place struct {
	*chain
	base    string      // its name in the last directory; "." is that directory itself
	info    fs.FileInfo // of base, which is not a link; nil if base does not exist
	missing []string    // components below base if base does not exist
}

// rel returns the path of the place in its area. The path contains no link.
func (p *place) rel() string {
	return filepath.Join(filepath.Join(p.names...), p.base, filepath.Join(p.missing...))
}

// enter makes the directory at the place the last one of the chain.
func (p *place) enter() error {
	if p.base == "." {
		return nil
	}
	if err := p.chain.enter(p.base); err != nil {
		return err
	}
	p.base = "."
	return nil
}

// open opens the regular file or the directory at the place, or creates the file, according to the flags of
// [os.OpenFile]. It does not follow links, and returns an error for a private file.
func (p *place) open(flag int, perm fs.FileMode, private []secret) (*os.File, error) {
	const making = os.O_CREATE | os.O_EXCL
	switch {
	case p.info == nil:
		return p.create(flag, perm)
	case flag&making == making:
		return nil, syscall.EEXIST
	case p.info.IsDir():
		if err := p.enter(); err != nil {
			return nil, err
		}
	case !p.info.Mode().IsRegular():
		return nil, ErrIrregular
	}
	dir, err := p.last()
	if err != nil {
		return nil, err
	}
	file, err := dir.OpenFile(p.base, flag&^(making|os.O_TRUNC)|nonblock, perm)
	if err != nil {
		return nil, err
	}
	if err = p.verify(dir, file, private); err == nil && flag&os.O_TRUNC != 0 {
		err = file.Truncate(0)
	}
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, err
	}
	return file, nil
}

func (p *place) create(flag int, perm fs.FileMode) (*os.File, error) {
	switch {
	case flag&os.O_CREATE == 0 || len(p.missing) > 0:
		return nil, syscall.ENOENT
	case isMark(p.base):
		return nil, errMark
	}
	dir, err := p.last()
	if err != nil {
		return nil, err
	}
	file, err := dir.OpenFile(p.base, flag|os.O_EXCL|nonblock, perm) // so that no link is followed
	if errors.Is(err, fs.ErrExist) && flag&os.O_EXCL == 0 {
		return nil, errChanged
	}
	return file, err
}

// verify checks that the opened file is the one at the place, and that tools may use it.
func (p *place) verify(dir *os.Root, file *os.File, private []secret) error {
	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case p.base == ".":
		return nil
	case !info.Mode().IsRegular():
		return ErrIrregular
	}
	if err := has(dir, p.base, info); err != nil {
		return err
	}
	if slices.ContainsFunc(private, func(s secret) bool { return s.is(info) }) {
		return errPrivate
	}
	return nil
}

// mkdirAll creates the missing directories.
func (p *place) mkdirAll(perm fs.FileMode) error {
	if p.info != nil {
		if !p.info.IsDir() {
			return syscall.EEXIST
		}
		return nil
	}
	for _, name := range slices.Concat([]string{p.base}, p.missing) {
		if isMark(name) {
			return errMark
		}
		dir, err := p.last()
		if err != nil {
			return err
		}
		if err := dir.Mkdir(name, perm); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := p.chain.enter(name); err != nil {
			return err
		}
	}
	return nil
}
