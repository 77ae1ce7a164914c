// Package walk visits the files below a directory, except those that ignore files exclude.
//
// Ignore files are .ignore, .gitignore and .git/info/exclude. If several match a path, the first of these kinds
// decides, and within a kind the file nearest to the path. Ignore files of parent directories count too, as far as
// the file system is accessible, except git ones above a directory that contains .git. Whether there is a repository
// does not matter. Hidden files are treated like others. Symbolic links are visited but not followed.
package walk

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/loopbus/loopbus/tools/internal/ignore"
)

// Options configures [Run].
type Options struct {
	// FS are the files, Start is the directory in it.
	FS    fs.FS
	Start string
	// Override, if not nil, decides before the ignore files. Its path is relative to Start.
	Override func(path string, isDir bool) ignore.Verdict
	// Visit is called for each file and directory below Start, in the order of names, a directory before what is in
	// it. The path is relative to Start. [fs.SkipAll] ends the walk without an error.
	Visit func(path string, entry fs.DirEntry) error
}

// maxPath is the longest path in bytes that programs can use, as in Linux. Directories further down are not entered:
// what is in them can be neither read nor written by its path, and each of their paths takes as long as it is.
const maxPath = 4096

// maxDepth is how many directories deep a path may be for its directory to be entered. Each path is followed from its
// beginning, which takes some system calls for each directory on it.
const maxDepth = 256

// Run walks the files below Start. It returns the error of Visit, the error of reading Start, or the context's cause.
// It skips directories below Start that cannot be read, or whose paths are too long or too deep.
func Run(ctx context.Context, o Options) error {
	w := walker{o}
	err := w.directory(ctx, "", w.above(o.Start), maxEntries)
	if errors.Is(err, fs.SkipAll) {
		return nil
	}
	return err
}

type walker struct{ Options }

// directory visits the entries of the directory rel, which is relative to Start. up are the rules of its parents. room
// is how many bytes of entries are enough to keep.
func (w walker) directory(ctx context.Context, rel string, up *level, room int) error {
	dir := path.Join(w.Start, rel)
	var here *level
	rules := map[string]bool{} // ignore files, until here has them
	for entries, err := range batches(room, func(add func(fs.DirEntry)) error {
		return read(ctx, w.FS, dir, func(e fs.DirEntry) {
			if isIgnoreFile(e.Name()) && rules != nil {
				rules[e.Name()] = true
			}
			add(e)
		})
	}) {
		switch {
		case err != nil && rel != "" && ctx.Err() == nil:
			return nil
		case err != nil:
			return err
		case rules != nil:
			here, rules = w.level(dir, up, func(name string) bool { return rules[name] }), nil
		}
		left := 2 * room
		for _, e := range entries {
			left -= size(e)
		}
		for _, e := range entries {
			if err := w.entry(ctx, path.Join(rel, e.Name()), e, here, max(left/2, minEntries)); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry visits an entry and, if it is a directory, what is in it.
func (w walker) entry(ctx context.Context, rel string, e fs.DirEntry, here *level, room int) error {
	ignored := w.ignored(ctx, rel, here, e.IsDir())
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case ignored:
		return nil
	}
	if err := w.Visit(rel, e); err != nil || !e.IsDir() || tooDeep(path.Join(w.Start, rel)) {
		return err
	}
	return w.directory(ctx, rel, here, room)
}

func tooDeep(dir string) bool { return len(dir) >= maxPath || strings.Count(dir, "/") >= maxDepth }

func (w walker) ignored(ctx context.Context, rel string, here *level, isDir bool) bool {
	if w.Override != nil {
		if v := w.Override(rel, isDir); v != ignore.Silent {
			return v == ignore.Ignored
		}
	}
	return here.verdict(ctx, path.Join(w.Start, rel), isDir) == ignore.Ignored
}
