package bash

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// sweepEvery is how long old spills may lie about while no new one is made.
const sweepEvery = time.Hour

// An attic is where spills are kept, each up to most bytes, all of them up to total bytes and for as long as keep. It
// does not matter who made them: a worker that was killed has left its own to others. It is safe for concurrent use.
type attic struct {
	dir         string
	most, total int64
	keep        time.Duration

	mu    sync.Mutex
	swept time.Time
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

// sweep removes spills that are too old, and the oldest ones until there is room for another. What cannot be removed, for
// it belongs to somebody else, stays.
func (a *attic) sweep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.swept = time.Now()
	files, total := a.list()
	for _, f := range files {
		if time.Since(f.ModTime()) < a.keep && total+a.most <= a.total {
			return
		}
		if os.Remove(filepath.Join(a.dir, f.Name())) == nil {
			total -= f.Size()
		}
	}
}

// list returns the spills, the oldest first, and how many bytes they have.
func (a *attic) list() (files []os.FileInfo, total int64) {
	entries, _ := os.ReadDir(a.dir) // what cannot be read cannot be swept
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
