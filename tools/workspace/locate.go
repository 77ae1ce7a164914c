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

// maxPath is the longest path in bytes, as in Linux.
const maxPath = 4096

// A purpose is the reason for following a path.
type purpose int

const (
	toRead  purpose = iota // the target must exist; it may be one of the single files
	toWrite                // the last components may be missing: missing ones cannot be links
)

// maxChanges is how often a path is followed again because a component was replaced in the meantime.
const maxChanges = 20

// at calls use with the place that an absolute path leads to. If a component is replaced between check and use, it
// starts again from the beginning: it calls use again if use has returned errChanged.
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

// worded replaces the component in an error by the whole path that the caller has passed.
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

// locate follows an absolute path and returns the area that it ends in and the place there. With toRead the file
// exists; otherwise the error names the first component that does not.
//
// Its time is proportional to the number of components. It returns the context's cause when the context ends.
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

// enter returns the innermost area that contains the path, and the rest of the path below it.
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

// single returns the place of one of the single files, which must not be a link.
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
