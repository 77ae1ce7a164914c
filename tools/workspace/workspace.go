// Package workspace gives tools access to the files below a root directory and to nothing else.
//
// Every path is followed component by component below an [os.Root], including symbolic links: a link, relative or
// absolute, may lead anywhere inside and nowhere else. Each directory on the way is opened in the previous one, and
// the file in the last one, so a link that is inserted between check and use cannot lead outside either.
//
// Two things inside are denied. One is the store of a runner: a directory with the mark [schemas.StoreMark] and
// everything in it, under whatever name it is reached. Such a mark cannot be created through a workspace. The other
// are the private files of the options, and on Linux what the kernel shows of processes. Their existence is visible.
//
// A path to something denied returns a [DeniedError]. For a path that leads outside, this happens before anything
// outside is touched, so that not even the existence of files there can be found out.
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
	// Dir is the directory of relative paths and of commands, default Root. It need not exist.
	Dir string
	// Home replaces ~ in paths; if it is empty, ~ is left unchanged.
	Home string
	// Also are further directories that paths may lead into. They must exist.
	Also []string
	// Files are patterns of [filepath.Match] for single files that may be read, too. A pattern is an absolute path;
	// only its last component may have wildcards. The directory must exist.
	Files []string
	// Private are files that tools must neither read nor write, wherever they are, such as the credentials of the
	// process: the files that have these names when the workspace is opened, under any name that they get later, and
	// the files that have these names at the time of access.
	Private []string
}

// A Workspace gives access to its files. It is safe for concurrent use.
type Workspace struct {
	dir, home string
	areas     []*area
	files     []filePattern
	private   []secret
	queue     queue
}

// An area is a directory that paths may lead into. It has two names: as given, and with links resolved.
type area struct {
	names []string
	root  *os.Root
}

type filePattern struct {
	base string // pattern of the last path component
	in   *area
}

// A DeniedError reports that tools may not use the target of a path: it is outside the workspace, in the store of a
// runner, or private.
type DeniedError struct {
	Path   string // as resolved
	Reason string // begins with a verb
}

// Error tells the model why.
func (e *DeniedError) Error() string { return "Access denied: " + e.Path + " " + e.Reason }

// Open validates the options and opens the directories. It reports all mistakes at once.
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
		info, _ := os.Stat(abs) // nil if the file does not exist
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

// name returns the area's name with links resolved.
func (a *area) name() string { return a.names[0] }

// Close closes the directories. Files that are open stay usable.
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

// Root returns the directory that paths are confined to, with links resolved.
func (w *Workspace) Root() string { return w.areas[0].name() }

// Dir returns the directory where relative paths start and commands run.
func (w *Workspace) Dir() string { return w.dir }
