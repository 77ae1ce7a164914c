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

// maxChanges is how often a path is followed anew because something on its way has changed meanwhile.
const maxChanges = 20

// at calls use for the place that an absolute path leads to. Where something changes between looking and opening, it
// begins anew: use may be called again if it returns errChanged.
func (w *Workspace) at(ctx context.Context, path string, why purpose, use func(*place) error) error {
	var err error
	for range maxChanges {
		if err = w.once(ctx, path, why, use); !errors.Is(err, errChanged) {
			break
		}
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	return w.worded(path, err)
}

func (w *Workspace) once(ctx context.Context, path string, why purpose, use func(*place) error) error {
	p, err := w.locate(ctx, path, why)
	if err != nil {
		return err
	}
	defer p.close()
	return use(p)
}

// worded gives an error the whole path, which the caller asked for, in the place of a component.
func (w *Workspace) worded(path string, err error) error {
	if err == nil || errors.As(err, new(*DeniedError)) {
		return err
	}
	for _, denied := range []error{errStore, errMark, errPrivate} {
		if errors.Is(err, denied) {
			return &DeniedError{Path: path, Reason: denied.Error()}
		}
	}
	if inner, ok := err.(*fs.PathError); ok { //nolint:errorlint // only the outermost is replaced
		err = inner.Err
	}
	return &fs.PathError{Op: "open", Path: path, Err: err}
}

// locate follows an absolute path to the area it ends in and the place there. If it is to be read, the file exists, or
// the error is that of the component that does not.
//
// It takes as long as the path has components. It ends with the cause of a context that ends.
func (w *Workspace) locate(ctx context.Context, path string, why purpose) (*place, error) {
	switch {
	case strings.IndexByte(path, 0) >= 0:
		return nil, syscall.EINVAL
	case len(path) >= maxPath:
		return nil, syscall.ENAMETOOLONG
	}
	walk := walk{ctx: ctx, why: why}
	next := path
	for {
		a, rest := w.enter(next)
		if a == nil {
			a, rest = w.enter(filepath.Clean(next))
		}
		if a == nil && why == toRead {
			if p, err := w.single(next); p != nil || err != nil {
				return p, err
			}
		}
		if a == nil {
			return nil, &DeniedError{Path: path, Reason: "is outside " + w.Root() + ", and only files inside may be used"}
		}
		p, jump, err := walk.below(a, rest)
		if err != nil || jump == "" {
			return p, err
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

// single finds the place of one of the single files. Such a file must not be a link.
func (w *Workspace) single(path string) (*place, error) {
	dir, base := filepath.Dir(path), filepath.Base(path)
	for _, f := range w.files {
		for _, name := range f.in.names {
			if ok, err := filepath.Match(f.base, base); !ok || err != nil || dir != name {
				continue
			}
			in, err := begin(f.in)
			if err != nil {
				return nil, err
			}
			info, err := f.in.root.Lstat(base)
			if err != nil {
				return nil, err
			}
			if info.Mode()&fs.ModeSymlink != 0 {
				return nil, nil
			}
			return &place{chain: in, base: base, info: info}, nil
		}
	}
	return nil, nil
}

// A walk is the way along one path, which counts the links.
type walk struct {
	ctx   context.Context //nolint:containedctx // a walk is one call
	why   purpose
	links int
}

// below follows the components of rest. It returns the place reached, or an absolute path to go on with: the target of
// an absolute link, or what follows a ".." at the top.
func (k *walk) below(a *area, rest string) (p *place, jump string, err error) {
	in, err := begin(a)
	if err != nil {
		return nil, "", err
	}
	p = &place{chain: in, base: "."}
	todo := strings.Split(strings.TrimLeft(rest, string(filepath.Separator)), string(filepath.Separator))
	if rest == "" {
		todo = nil
	}
	for len(todo) > 0 && jump == "" && err == nil {
		if k.ctx.Err() != nil {
			err = context.Cause(k.ctx)
			break
		}
		name := todo[0]
		todo, jump, err = k.step(p, name, todo[1:])
	}
	if err == nil && jump == "" && p.base == "." {
		var dir *os.Root
		if dir, err = p.last(); err == nil {
			p.info, err = dir.Stat(".")
		}
	}
	if err != nil || jump != "" {
		p.close()
		return nil, jump, err
	}
	return p, "", nil
}

// step goes on from a place by one component. It returns those that are left, or an absolute path to go on with.
func (k *walk) step(p *place, name string, todo []string) (left []string, jump string, err error) {
	switch name {
	case "", ".", "..":
		if p.base != "." {
			if err := p.directory(); err != nil {
				return nil, "", err
			}
		}
		if name != ".." {
			return todo, "", nil
		}
		return p.up(todo)
	}
	if p.base != "." && p.info == nil { // only where it is to be written
		p.missing = append(p.missing, name)
		return todo, "", nil
	}
	if p.base != "." {
		if err := p.directory(); err != nil {
			return nil, "", err
		}
		if err := p.enter(); err != nil {
			return nil, "", err
		}
	}
	target, err := k.look(p, name)
	switch {
	case err != nil:
		return nil, "", err
	case target == "":
		return todo, "", nil
	case filepath.IsAbs(target):
		return nil, join(target, todo), nil
	}
	return append(strings.Split(target, string(filepath.Separator)), todo...), "", nil
}

// up goes to the directory above, or to the path of that above the area.
func (p *place) up(todo []string) (left []string, jump string, err error) {
	if p.base != "." {
		p.base, p.info = ".", nil
		return todo, "", nil
	}
	if parent := filepath.Dir(p.area.name()); !p.leave() && parent != p.area.name() {
		return nil, join(parent, todo), nil
	}
	return todo, "", nil
}

// directory is the error of a place that is none.
func (p *place) directory() error {
	switch {
	case p.info == nil:
		return syscall.ENOENT
	case !p.info.IsDir():
		return syscall.ENOTDIR
	}
	return nil
}

// look makes a name in the last directory the place, or returns the target of the link that it is.
func (k *walk) look(p *place, name string) (target string, err error) {
	dir, err := p.last()
	if err != nil {
		return "", err
	}
	info, err := dir.Lstat(name)
	if k.why == toWrite && errors.Is(err, fs.ErrNotExist) {
		p.base, p.info = name, nil
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		p.base, p.info = name, info
		return "", nil
	}
	if k.links++; k.links > maxLinks {
		return "", syscall.ELOOP
	}
	return dir.Readlink(name)
}

// join puts the components below dir as they are: cleaning them would step over links.
func join(dir string, rest []string) string {
	const sep = string(filepath.Separator)
	if len(rest) == 0 {
		return dir // with a slash at its end it would have to be a directory
	}
	return strings.TrimSuffix(dir, sep) + sep + strings.Join(rest, sep)
}
