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

// Run walks the files below Start. It returns the error of Visit, the error of reading Start, or the context's cause.
// It skips directories below Start that cannot be read.
func Run(ctx context.Context, o Options) error {
	entries, err := fs.ReadDir(o.FS, o.Start)
	if err != nil {
		return err
	}
	w := walker{o}
	err = w.directory(ctx, "", entries, w.above(o.Start))
	if errors.Is(err, fs.SkipAll) {
		return nil
	}
	return err
}

type walker struct{ Options }

// directory visits the entries of the directory rel, which is relative to Start. up are the rules of its parents.
func (w walker) directory(ctx context.Context, rel string, entries []fs.DirEntry, up *level) error {
	dir := path.Join(w.Start, rel)
	here := w.level(dir, up, func(name string) bool { return has(entries, name) })
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		below := path.Join(rel, e.Name())
		if w.ignored(below, here, e.IsDir()) {
			continue
		}
		if err := w.Visit(below, e); err != nil {
			return err
		}
		if !e.IsDir() {
			continue
		}
		inside, err := fs.ReadDir(w.FS, path.Join(w.Start, below))
		if err != nil {
			continue
		}
		if err := w.directory(ctx, below, inside, here); err != nil {
			return err
		}
	}
	return nil
}

func (w walker) ignored(rel string, here *level, isDir bool) bool {
	if w.Override != nil {
		if v := w.Override(rel, isDir); v != ignore.Silent {
			return v == ignore.Ignored
		}
	}
	return here.verdict(path.Join(w.Start, rel), isDir) == ignore.Ignored
}

func has(entries []fs.DirEntry, name string) bool {
	for _, e := range entries {
		if e.Name() == name {
			return true
		}
	}
	return false
}
