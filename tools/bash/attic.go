package bash

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	// sweepEvery is the time between two sweeps while no new spill is created.
	sweepEvery = time.Hour

	// maxSpills is the largest number of spills. It bounds a sweep to some milliseconds.
	maxSpills = 1000

	// maxEntries is how many directory entries a sweep reads, in case other programs use the directory, too.
	maxEntries = 20 * maxSpills
)

// An attic is the directory of spills: each has at most most bytes, all together at most total bytes, and each is kept
// for the time keep. The limits include spills of other processes, so that the spills of a killed worker are removed,
// too. An attic is safe for concurrent use.
type attic struct {
	dir         string
	own         bool // dir is the default directory, which is created when it is needed
	most, total int64
	keep        time.Duration

	mu    sync.Mutex
	swept time.Time
}

func newAttic(o Options) *attic {
	a := &attic{dir: o.TempDir, most: o.SpillBytes, total: o.SpillTotal, keep: o.SpillAge}
	if a.own = a.dir == ""; a.own {
		a.dir = defaultSpillDir()
	}
	return a
}

// Tidy removes kept outputs that are too old or too large in total, at once and then every hour, until ctx ends.
// Without Tidy this happens only when commands run.
func Tidy(ctx context.Context, o Options) {
	a := newAttic(o.withDefaults())
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		a.sweep()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// create creates a new file.
func (a *attic) create() (*os.File, error) {
	if a.own {
		if _, err := SpillDir(""); err != nil {
			return nil, err
		}
	}
	a.sweep()
	return os.OpenFile(filepath.Join(a.dir, spillName()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// visit sweeps if the last sweep was longer than sweepEvery ago.
func (a *attic) visit() {
	a.mu.Lock()
	due := time.Since(a.swept) >= sweepEvery
	a.mu.Unlock()
	if due {
		a.sweep()
	}
}

// sweep removes spills that are too old, and then the oldest ones until there is room for another. It leaves files that
// it cannot remove because they belong to another user.
func (a *attic) sweep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.swept = time.Now()
	if a.own {
		_ = os.Chtimes(a.dir, a.swept, a.swept) // keeps cleaners of old temporary directories from removing this one
	}
	files, total := a.list()
	n := len(files)
	for _, f := range files {
		if time.Since(f.ModTime()) < a.keep && total+a.most <= a.total && n < maxSpills {
			return
		}
		if err := os.Remove(filepath.Join(a.dir, f.Name())); err == nil || errors.Is(err, fs.ErrNotExist) {
			total, n = total-f.Size(), n-1
		}
	}
}

// list returns the spills, oldest first, and their total size.
func (a *attic) list() (files []os.FileInfo, total int64) {
	dir, err := os.Open(a.dir)
	if err != nil {
		return nil, 0 // what cannot be read cannot be swept
	}
	defer func() { _ = dir.Close() }() // nothing was written
	entries, _ := dir.ReadDir(maxEntries)
	pattern := filepath.Base(SpillPattern(a.dir))
	for _, e := range entries {
		if ok, err := filepath.Match(pattern, e.Name()); !ok || err != nil || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil {
			files, total = append(files, info), total+info.Size()
		}
	}
	slices.SortFunc(files, func(x, y os.FileInfo) int { return x.ModTime().Compare(y.ModTime()) })
	return files, total
}
