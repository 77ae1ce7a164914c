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
	// sweepEvery is how long old spills may lie about while no new one is made.
	sweepEvery = time.Hour

	// maxSpills is how many spills there may be: what a sweep has to look at is bounded then, to some milliseconds.
	maxSpills = 1000

	// maxEntries is how many files of a directory a sweep looks at, in case others use it.
	maxEntries = 20 * maxSpills
)

// An attic is where spills are kept, each up to most bytes, all of them up to total bytes and for as long as keep. It
// does not matter who made them: a worker that was killed has left its own to others. It is safe for concurrent use.
type attic struct {
	dir         string
	own         bool // it is the default one, and made when it is needed
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

// Tidy removes kept outputs that are older than the options say, or too many, at once and then every hour, until ctx
// ends. Without it that is done with the commands that run.
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

// create makes a new file.
func (a *attic) create() (*os.File, error) {
	if a.own {
		if _, err := SpillDir(""); err != nil {
			return nil, err
		}
	}
	a.sweep()
	return os.OpenFile(filepath.Join(a.dir, spillName()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// visit sweeps if that has not been done for long.
func (a *attic) visit() {
	a.mu.Lock()
	due := time.Since(a.swept) >= sweepEvery
	a.mu.Unlock()
	if due {
		a.sweep()
	}
}

// sweep removes spills that are too old, and the oldest ones until there is room for another. What cannot be removed,
// for it belongs to somebody else, stays.
func (a *attic) sweep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.swept = time.Now()
	if a.own {
		_ = os.Chtimes(a.dir, a.swept, a.swept) // what removes old temporary directories is not to remove this one
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

// list returns the spills, the oldest first, and how many bytes they have.
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
