// Package workspace gives tools access to the files below a root directory and to nothing else.
//
// Every path is followed component by component below an [os.Root], symbolic links included: a link, relative or
// absolute, may lead anywhere inside and nowhere else. Each directory on the way is opened in the one before, and the
// file in the last one, so a link that is put in between the check and the use does not lead anywhere else either.
//
// Two things inside are denied. One is the store of a runner: a directory with the mark [schemas.StoreMark] and all
// that is in it, by whatever name it is reached. Such a mark cannot be made here. The other are the private files of
// the options. That they exist can be seen.
//
// A path to what is denied gives a [DeniedError]; one that leads outside before anything outside is touched, so that
// not even the existence of files there can be found out.
package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Options configures [Open].
type Options struct {
	// Root is the directory that paths are confined to. It must exist.
	Root string
	// Dir is where relative paths begin and commands run, default Root. It may be missing.
	Dir string
	// Home is what ~ stands for; empty leaves ~ as it is.
	Home string
	// Also are further directories that paths may lead into. They must exist.
	Also []string
	// Files are patterns, as of [filepath.Match], of single files that may be read besides: files directly in a
	// directory, named by an absolute path. The directory must exist.
	Files []string
	// Private are files that tools must neither read nor write wherever they lie, such as the credentials of the process:
	// those that have these names now, under any name, and those that have them at the time.
	Private []string
}

// A Workspace is safe for concurrent use.
type Workspace struct {
	dir, home string
	areas     []*area
	files     []filePattern
	private   []secret
	queue     queue
}

// An area is a directory below which paths are allowed, under its names: as given, and with links resolved.
type area struct {
	names []string
	root  *os.Root
}

type filePattern struct {
	base string // of the last path component
	in   *area
}

// A DeniedError says that tools may not use what a path leads to: it is outside of the workspace, in the store of a
// runner, or private.
type DeniedError struct {
	Path   string // as resolved
	Reason string // begins with a verb
}

// Error tells the model why.
func (e *DeniedError) Error() string { return "Access denied: " + e.Path + " " + e.Reason }

// Open checks the options and opens the directories. All mistakes are reported at once.
func Open(o Options) (*Workspace, error) {
	w := &Workspace{home: o.Home}
	var errs []error
	for _, dir := range append([]string{o.Root}, o.Also...) {
		a, err := openArea(dir)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		w.areas = append(w.areas, a)
	}
	for _, name := range o.Private {
		abs, err := filepath.Abs(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("workspace: private file %q: %w", name, err))
		}
		info, _ := os.Stat(abs) // nil if there is none
		w.private = append(w.private, secret{abs, info})
	}
	for _, pattern := range o.Files {
		if _, err := filepath.Match(filepath.Base(pattern), ""); err != nil {
			errs = append(errs, fmt.Errorf("workspace: file pattern %q: %w", pattern, err))
			continue
		}
		a, err := openArea(filepath.Dir(pattern))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		w.files = append(w.files, filePattern{filepath.Base(pattern), a})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	w.dir = w.areas[0].name()
	if o.Dir != "" {
		w.dir = filepath.Join(w.dir, o.Dir)
		if filepath.IsAbs(o.Dir) {
			w.dir = filepath.Clean(o.Dir)
		}
	}
	return w, nil
}

func openArea(dir string) (*area, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("workspace: directory %q: %w", dir, err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("workspace: directory %q: %w", dir, err)
	}
	if err := inStore(real); err != nil {
		return nil, fmt.Errorf("workspace: directory %q: %w", dir, err)
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, fmt.Errorf("workspace: directory %q: %w", dir, err)
	}
	a := &area{names: []string{real}, root: root}
	if abs != real {
		a.names = append(a.names, abs)
	}
	return a, nil
}

// name is the area's name with links resolved.
func (a *area) name() string { return a.names[0] }

// Close gives the directories back. Files that are open stay usable.
func (w *Workspace) Close() error {
	var errs []error
	for _, a := range w.areas {
		errs = append(errs, a.root.Close())
	}
	for _, f := range w.files {
		errs = append(errs, f.in.root.Close())
	}
	return errors.Join(errs...)
}

// Root is the directory that paths are confined to, with links resolved.
func (w *Workspace) Root() string { return w.areas[0].name() }

// Dir is where relative paths begin and commands run.
func (w *Workspace) Dir() string { return w.dir }
