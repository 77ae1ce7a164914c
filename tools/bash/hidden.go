package bash

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/loopbus/loopbus/schemas"
)

// maxHidden is the largest number of paths that a sandbox hides. Each is a mount, and bubblewrap reads the list of all
// mounts for each: this many take some tenths of a second. A command can make any number of directories that look like
// stores, and a store that was not hidden could be read, so the next commands in the workspace are refused.
const maxHidden = 256

// targets are the paths that are hidden from commands, with links resolved, each with a path that exists as long as it
// is to be hidden. A command may remove the link by which a target was found; the target stays hidden.
type targets struct {
	mu    sync.Mutex
	marks map[string]string
}

// with adds what paths and stores lead to, and returns all targets that exist. What leads to the workspace, or above
// it, is not added and is an error: a mount there would cover what is to be hidden below it, and might hide nothing.
func (t *targets) with(root string, paths, stores []string) (all []string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for _, path := range paths {
		target, err := locate(path, root)
		if err == nil {
			t.marks[target] = target
		} else if errors.As(err, new(*coversError)) {
			errs = append(errs, cannotHide(path, err))
		}
	}
	for _, path := range stores {
		target, err := locate(path, root)
		if _, known := t.marks[target]; err == nil && !known {
			t.marks[target] = filepath.Join(target, schemas.StoreMark)
		} else if errors.As(err, new(*coversError)) {
			errs = append(errs, cannotHide(path, err))
		}
	}
	maps.DeleteFunc(t.marks, func(_, mark string) bool {
		_, err := os.Lstat(mark)
		return err != nil
	})
	return slices.Sorted(maps.Keys(t.marks)), errors.Join(errs...)
}

// A coversError is the reason not to hide a directory that the workspace is in, or is.
type coversError struct{ target, root string }

func (e *coversError) Error() string {
	return fmt.Sprintf("it is %s, and the workspace %s is in it; hide other paths in it, or correct the link", e.target,
		e.root)
}

func cannotHide(path string, err error) error {
	return fmt.Errorf("cannot hide %q from commands: %w", path, err)
}

// locate returns the existing path that is hidden from commands in a workspace if path is to be.
func locate(path, root string) (target string, err error) {
	if path == "" {
		return "", errors.New("it is empty")
	}
	if target, err = resolve(path); err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(target, root); err == nil && filepath.IsLocal(rel) {
		return "", &coversError{target, root}
	}
	return target, nil
}

// resolve returns where a path leads to; it is an error if nothing is there.
func resolve(path string) (target string, err error) {
	target, err = filepath.Abs(path)
	if err == nil {
		target, err = filepath.EvalSymlinks(target)
	}
	return target, err
}

// checkHide reports paths of [Options.SandboxHide] that would hide nothing: a worker must not start with such a
// mistake.
func (s shell) checkHide() error {
	var errs []error
	for _, path := range s.opts.SandboxHide {
		_, err := locate(path, s.opts.Workspace.Root())
		if err != nil && !errors.As(err, new(*coversError)) {
			err = fmt.Errorf("%w; correct it, leave it out, or make an empty directory "+
				"or file there for what will appear later", err)
		}
		if err != nil {
			errs = append(errs, cannotHide(path, err))
		}
	}
	return errors.Join(errs...)
}

// hidden returns the paths that a sandbox hides: those that exist, with links resolved. If there are too many, or if
// one of them cannot be hidden, it returns an error, and some of them.
func (s shell) hidden() (paths []string, err error) {
	if s.opts.Sandbox == SandboxNone {
		return nil, nil
	}
	root := s.opts.Workspace.Root()
	private, stores := s.opts.Workspace.Hidden()
	paths, err = s.targets.with(root, slices.Concat(s.opts.SandboxHide, private), stores)
	if err != nil || len(paths) <= maxHidden {
		return paths[:min(len(paths), maxHidden)], err
	}
	return paths[:maxHidden], fmt.Errorf("a sandbox hides at most %d paths, and there are %d. Each directory in %s that "+
		"has the file %s is hidden, as the store of a runner: outside of the sandbox, remove this file from the "+
		"directories that are none", maxHidden, len(paths), root, schemas.StoreMark)
}
