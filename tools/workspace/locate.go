package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A path may be so many bytes long, and lead through so many symbolic links, as in Linux.
const (
	maxPath  = 4096
	maxLinks = 40
)

// A purpose is what a path is followed for.
type purpose int

const (
	toRead  purpose = iota // what the path names must exist; it may be one of the single files
	toWrite                // the last components may be missing: there is no link in what does not exist
)

// locate follows an absolute path to the area it ends in and the name there, which leads through no symbolic link. If
// it is to be read, the file exists, or the error is that of the component that does not.
//
// It takes as long as the path has components. It ends with the cause of a context that ends.
func (w *Workspace) locate(ctx context.Context, path string, why purpose) (*area, string, error) {
	switch {
	case strings.IndexByte(path, 0) >= 0:
		return nil, "", &fs.PathError{Op: "open", Path: path, Err: syscall.EINVAL}
	case len(path) >= maxPath:
		return nil, "", &fs.PathError{Op: "open", Path: path, Err: syscall.ENAMETOOLONG}
	}
	walk := walk{ctx: ctx, path: path, why: why}
	next := path
	for {
		a, rest := w.enter(next)
		if a == nil {
			a, rest = w.enter(filepath.Clean(next))
		}
		if a == nil && why == toRead {
			if a, rel := w.single(next); a != nil {
				return a, rel, nil
			}
		}
		if a == nil {
			return nil, "", &OutsideError{Path: path, Root: w.Root()}
		}
		rel, jump, err := walk.below(a, rest)
		if err != nil {
			return nil, "", err
		}
		if jump == "" {
			return a, rel, nil
		}
		next = jump
	}
}

// enter finds the innermost area that the path names, and the rest of the path below it.
func (w *Workspace) enter(path string) (in *area, rest string) {
	longest := -1
	for _, a := range w.areas {
		for _, name := range a.names {
			tail, ok := strings.CutPrefix(path, name)
			if !ok || tail != "" && !os.IsPathSeparator(tail[0]) && !os.IsPathSeparator(name[len(name)-1]) {
				continue
			}
			if len(name) > longest {
				in, rest, longest = a, tail, len(name)
			}
		}
	}
	return in, rest
}

// single finds the area of one of the single files. Such a file must not be a link.
func (w *Workspace) single(path string) (in *area, rel string) {
	dir, base := filepath.Dir(path), filepath.Base(path)
	for _, f := range w.files {
		for _, name := range f.in.names {
			if ok, err := filepath.Match(f.base, base); !ok || err != nil || dir != name {
				continue
			}
			if info, err := f.in.root.Lstat(base); err == nil && info.Mode()&fs.ModeSymlink != 0 {
				return nil, ""
			}
			return f.in, base
		}
	}
	return nil, ""
}

// below follows the components of rest. It returns the name reached, or an absolute path to go on with: the target of
// an absolute link, or what follows a ".." at the top.
func (k *walk) below(a *area, rest string) (rel, jump string, err error) {
	k.descent = descent{area: a}
	defer k.leave()
	todo := strings.Split(strings.TrimLeft(rest, string(filepath.Separator)), string(filepath.Separator))
	if rest == "" {
		todo = nil
	}
	for len(todo) > 0 {
		if k.ctx.Err() != nil {
			return "", "", context.Cause(k.ctx)
		}
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".", "..":
			if err := k.isDirectory(); err != nil {
				return "", "", k.fail(err)
			}
			if name != ".." {
				continue
			}
			if parent := filepath.Dir(a.name()); len(k.names) == 0 && parent != a.name() {
				return "", join(parent, todo), nil
			}
			k.up()
			continue
		}
		target, isLink, err := k.link(name)
		switch {
		case err != nil:
			return "", "", err
		case !isLink:
			k.names = append(k.names, name)
		case filepath.IsAbs(target):
			return "", join(target, todo), nil
		default:
			todo = append(strings.Split(target, string(filepath.Separator)), todo...)
		}
	}
	return k.rel(), "", nil
}

// link reads what has the name in the directory reached, if it is a symbolic link. The error has the whole path, not
// the component: that is what the caller asked for.
func (k *walk) link(name string) (target string, isLink bool, err error) {
	var info fs.FileInfo
	dir, err := k.directory()
	if err == nil {
		info, err = dir.Lstat(name)
	}
	if k.why == toWrite && errors.Is(err, fs.ErrNotExist) {
		k.missing = true
		return "", false, nil
	}
	if err != nil {
		return "", false, k.fail(err)
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		return "", false, nil
	}
	if k.links++; k.links > maxLinks {
		return "", false, k.fail(syscall.ELOOP)
	}
	if target, err = dir.Readlink(name); err != nil {
		return "", false, k.fail(err)
	}
	return target, true, nil
}

func (k *walk) fail(err error) error {
	if inner, ok := err.(*fs.PathError); ok { //nolint:errorlint // only the outermost is replaced
		err = inner.Err
	}
	return &fs.PathError{Op: "open", Path: k.path, Err: err}
}

// join puts the components below dir as they are: cleaning them would step over links.
func join(dir string, rest []string) string {
	const sep = string(filepath.Separator)
	if len(rest) == 0 {
		return dir // with a slash at its end it would have to be a directory
	}
	return strings.TrimSuffix(dir, sep) + sep + strings.Join(rest, sep)
}
