package bash

import (
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

// with adds what paths and stores lead to, and returns all targets that exist.
func (t *targets) with(paths, stores []string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, path := range paths {
		if target, ok := resolved(path); ok {
			t.marks[target] = target
		}
	}
	for _, path := range stores {
		target, ok := resolved(path)
		if _, known := t.marks[target]; ok && !known {
			t.marks[target] = filepath.Join(target, schemas.StoreMark)
		}
	}
	maps.DeleteFunc(t.marks, func(_, mark string) bool {
		_, err := os.Lstat(mark)
		return err != nil
	})
	return slices.Sorted(maps.Keys(t.marks))
}

// resolved returns where a path leads to; ok is false if nothing is there.
func resolved(path string) (target string, ok bool) {
	target, err := filepath.Abs(path)
	if err == nil {
		target, err = filepath.EvalSymlinks(target)
	}
	return target, err == nil
}

// hidden returns the paths that a sandbox hides: those that exist, with links resolved. If there are too many, it
// returns an error, and some of them.
func (s shell) hidden() (paths []string, err error) {
	if s.opts.Sandbox == SandboxNone {
		return nil, nil
	}
	private, stores := s.opts.Workspace.Hidden()
	if paths = s.targets.with(slices.Concat(s.opts.SandboxHide, private), stores); len(paths) <= maxHidden {
		return paths, nil
	}
	return paths[:maxHidden], fmt.Errorf("a sandbox hides at most %d paths, and there are %d. Each directory in %s that "+
		"has the file %s is hidden, as the store of a runner: outside of the sandbox, remove this file from the "+
		"directories that are none", maxHidden, len(paths), s.opts.Workspace.Root(), schemas.StoreMark)
}
