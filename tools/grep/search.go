package grep

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/ignore"
	"github.com/loopbus/loopbus/tools/internal/listing"
	"github.com/loopbus/loopbus/tools/internal/nodeerr"
	"github.com/loopbus/loopbus/tools/internal/walk"
)

// search searches one file, regardless of ignore files and the glob, or the files below a directory.
func (s searcher) search(ctx context.Context, args arguments, scan scanner) error {
	from := s.workspace.Resolve(args.Path)
	info, err := listing.Stat(ctx, s.workspace, from)
	if err != nil {
		return err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return tools.Failf("Not a regular file: %s", from)
	}
	only, err := ignore.ParseGlob(args.Glob)
	if err != nil {
		return err
	}
	files, start, err := s.workspace.FS(ctx, from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		opened, err := scan.open(ctx, files, start, filepath.Base(from))
		if err != nil && !opened {
			return tools.Failf("Cannot read file: %v", nodeerr.New(err, "open", from))
		}
		return err
	}
	err = walk.Run(ctx, walk.Options{
		FS: files, Start: start, Override: override(ctx, only, s.workspace.Dir(), from),
		Visit: func(name string, e fs.DirEntry) error {
			if !e.Type().IsRegular() {
				return nil
			}
			if opened, err := scan.open(ctx, files, path.Join(start, name), name); opened && err != nil {
				return err
			}
			if scan.found.full() {
				return fs.SkipAll
			}
			return nil
		},
	})
	if denied := (*fs.PathError)(nil); errors.As(err, &denied) {
		return tools.Failf("Cannot read directory: %v", nodeerr.New(err, "scandir", from))
	}
	return err
}

// override makes a glob decide before the ignore files: files that match are searched even if they are ignored, and
// others are not searched. A glob with a slash is relative to the working directory, wherever the search begins.
func override(ctx context.Context, only ignore.Rules, workingDir, from string,
) func(name string, isDir bool) ignore.Verdict {
	if only == nil {
		return nil
	}
	prefix, err := filepath.Rel(workingDir, from)
	if err != nil || prefix == ".." || strings.HasPrefix(prefix, "../") {
		prefix = strings.TrimPrefix(from, "/")
	}
	return func(name string, isDir bool) ignore.Verdict {
		switch only.Match(ctx, path.Join(filepath.ToSlash(prefix), name), isDir) {
		case ignore.Ignored: // the glob matches: it selects files
			return ignore.Kept
		case ignore.Kept: // a glob that begins with ! excludes files
			return ignore.Ignored
		}
		if isDir || only.Negated() {
			return ignore.Silent
		}
		return ignore.Ignored
	}
}
