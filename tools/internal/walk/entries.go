package walk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"

	"github.com/loopbus/loopbus/tools/internal/sorted"
)

const (
	// maxEntries is how many bytes of entries are enough to keep: those of some hundred thousand files. A directory with
	// more is read several times. The entries of a directory and those of all above it are in memory together; however
	// many they are, a directory has room for minEntries.
	maxEntries = 32 << 20
	minEntries = 16 << 10
	// entrySize is how many bytes an entry takes beside its name.
	entrySize = 128
	// atOnce is how many entries are read between two checks of the context.
	atOnce = 1024
)

// Entries returns the entries of a directory in the order of their names. A large directory is read several times
// instead of being kept in memory. The error is that of reading, or the context's cause.
func Entries(ctx context.Context, files fs.FS, dir string) iter.Seq2[fs.DirEntry, error] {
	return func(yield func(fs.DirEntry, error) bool) {
		for list, err := range batches(maxEntries, func(add func(fs.DirEntry)) error { return read(ctx, files, dir, add) }) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range list {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

func batches(room int, read func(add func(fs.DirEntry)) error) iter.Seq2[[]fs.DirEntry, error] {
	return sorted.Order[fs.DirEntry]{
		Compare: func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) },
		Size:    size,
		Room:    room,
	}.Batches(read)
}

// entry is what a walk keeps of an entry of a directory: those of package os may have all that the system knows of the
// file, some 200 bytes more.
type entry struct {
	name string
	kind fs.FileMode
}

func (e entry) Name() string      { return e.name }
func (e entry) IsDir() bool       { return e.kind.IsDir() }
func (e entry) Type() fs.FileMode { return e.kind }

// Info returns an error that wraps [errors.ErrUnsupported]: who needs more than the kind of an entry looks at its path.
func (e entry) Info() (fs.FileInfo, error) {
	return nil, fmt.Errorf("entry %s of a walk: %w", e.name, errors.ErrUnsupported)
}

func size(e fs.DirEntry) int { return len(e.Name()) + entrySize }

// read passes the entries of a directory to add, in no order.
func read(ctx context.Context, files fs.FS, dir string, add func(fs.DirEntry)) error {
	file, err := files.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // nothing was written
	list, ok := file.(fs.ReadDirFile)
	if !ok {
		return &fs.PathError{Op: "readdir", Path: dir, Err: errors.ErrUnsupported}
	}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		some, err := list.ReadDir(atOnce)
		for _, e := range some {
			add(entry{strings.Clone(e.Name()), e.Type()})
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
