package bash

import (
	"context"
	"errors"
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

	// pieces is how many spills that are being written fit at least. A spill gets its room in pieces, so that many short
	// ones fit at the same time; each piece costs a sweep.
	pieces = 256
	// minPiece is the least size of a piece.
	minPiece = 64 << 10
)

// errNoRoom is why a spill is not kept.
var errNoRoom = errors.New("the outputs of other commands, which still run, take up all the room")

// An attic is the directory of spills: each has at most most bytes, all together at most total bytes, and each is kept
// for the time keep. The limits include spills of other processes, so that the spills of a killed worker are removed,
// too. A spill that another process is writing counts with the size that it has. An attic is safe for concurrent use.
type attic struct {
	dir         string
	own         bool // dir is the default directory, which is created when it is needed
	most, total int64
	keep        time.Duration

	mu      sync.Mutex
	swept   time.Time
	writing map[string]int64 // by name, the spills that are being written, and the room that they have
}

func newAttic(o Options) *attic {
	a := &attic{dir: o.TempDir, most: min(o.SpillBytes, o.SpillTotal), total: o.SpillTotal, keep: o.SpillAge,
		writing: map[string]int64{}}
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

// create creates a new file, and returns the room that it has: see grow. The caller must call release when it has
// closed the file.
func (a *attic) create() (f *os.File, room int64, err error) {
	if a.own {
		if _, err := SpillDir(""); err != nil {
			return nil, 0, err
		}
	}
	path := filepath.Join(a.dir, spillName())
	if room = a.grow(path); room == 0 {
		return nil, 0, errNoRoom
	}
	if f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		a.release(path)
	}
	return f, room, err
}

// grow makes room for more bytes of a spill that is being written, and returns the size that it may have now. That is
// no more than before if the spill has its largest size, or if there is nothing to remove.
func (a *attic) grow(path string) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := filepath.Base(path)
	more := min(max(a.total/pieces, minPiece), a.most-a.writing[name])
	if more > 0 && a.makeRoom(more) {
		a.writing[name] += more
	}
	return a.writing[name]
}

// release says that a spill is not being written any more.
func (a *attic) release(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.writing, filepath.Base(path))
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

// sweep removes spills that are too old, and then the oldest ones until the others are not too large in total.
func (a *attic) sweep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.makeRoom(0)
}

// makeRoom removes spills that are too old, and then the oldest ones until there is room for more bytes, and reports
// whether there is. A spill that is being written frees no room: it takes up its blocks until it is closed. Files that
// cannot be removed belong to another user and do not count. The caller holds the lock.
func (a *attic) makeRoom(more int64) bool {
	a.swept = time.Now()
	if a.own {
		_ = os.Chtimes(a.dir, a.swept, a.swept) // keeps cleaners of old temporary directories from removing this one
	}
	files, total := a.list()
	n := len(files)
	for _, f := range files {
		old := time.Since(f.ModTime()) >= a.keep
		if !old && total+more <= a.total && n < maxSpills {
			break
		}
		_, held := a.writing[f.Name()]
		if held && !old {
			continue
		}
		_ = os.Remove(filepath.Join(a.dir, f.Name()))
		if n--; !held {
			total -= f.Size()
		}
	}
	return total+more <= a.total
}

// list returns the spills, oldest first, and their total size: of those that are being written, the room that they
// have, also if they have no name any more.
func (a *attic) list() (files []os.FileInfo, total int64) {
	for _, room := range a.writing {
		total += room
	}
	dir, err := os.Open(a.dir)
	if err != nil {
		return nil, total // what cannot be read cannot be swept
	}
	defer func() { _ = dir.Close() }() // nothing was written
	entries, _ := dir.ReadDir(maxEntries)
	pattern := filepath.Base(SpillPattern(a.dir))
	for _, e := range entries {
		if ok, err := filepath.Match(pattern, e.Name()); !ok || err != nil || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		files = append(files, info)
		if _, held := a.writing[e.Name()]; !held {
			total += info.Size()
		}
	}
	slices.SortFunc(files, func(x, y os.FileInfo) int { return x.ModTime().Compare(y.ModTime()) })
	return files, total
}
