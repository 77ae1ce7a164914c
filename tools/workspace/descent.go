package workspace

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
)

// A walk is the way along one path, which counts the links.
type walk struct {
	ctx   context.Context //nolint:containedctx // a walk is one call
	path  string
	why   purpose
	links int
	descent
}

// maxOpen is how many directories of the way are kept open: so many ".." cost nothing.
const maxOpen = 32

// A descent is the way from the top of an area to the component reached. The directories that it has come through last
// stay open, for a name is looked up in its directory: from the top that would take as long as the way is.
type descent struct {
	area    *area
	names   []string   // from the top on; none is a link
	missing bool       // the last of the names does not exist
	known   int        // so many of the names, the first ones, are directories
	open    []*os.Root // the directories first, first+1, ... of the names; 0 is the top, which is the area's
	first   int
}

// rel is the name reached.
func (d *descent) rel() string { return filepath.Join(append([]string{"."}, d.names...)...) }

// directory opens the directory reached. It is the descent's, until it goes on.
func (d *descent) directory() (*os.Root, error) {
	at := len(d.names)
	if d.missing {
		return nil, syscall.ENOENT
	}
	if at == 0 {
		return d.area.root, nil
	}
	if n := len(d.open); n > 0 && d.first+n-1 == at {
		return d.open[n-1], nil
	}
	from, name := d.area.root, d.names[0]
	switch n := len(d.open); {
	case n > 0: // the directory before
		from, name = d.open[n-1], d.names[at-1]
	case at > 1:
		name = d.rel()
	}
	dir, err := from.OpenRoot(name)
	if err != nil {
		if info, e := from.Lstat(name); e == nil && !info.IsDir() {
			err = syscall.ENOTDIR // which the error is not, but in words
		}
		return nil, err
	}
	if len(d.open) == 0 {
		d.first = at
	}
	if len(d.open) == maxOpen {
		_ = d.open[0].Close() // nothing was written
		d.open = d.open[:copy(d.open, d.open[1:])]
		d.first++
	}
	d.open, d.known = append(d.open, dir), at
	return dir, nil
}

// isDirectory returns an error where the component reached is no directory.
func (d *descent) isDirectory() error {
	if len(d.names) <= d.known {
		return nil
	}
	_, err := d.directory()
	return err
}

// up goes to the directory above the one reached.
func (d *descent) up() {
	if len(d.names) == 0 {
		return
	}
	if n := len(d.open); n > 0 && d.first+n-1 == len(d.names) {
		_ = d.open[n-1].Close()
		d.open = d.open[:n-1]
	}
	d.names = d.names[:len(d.names)-1]
	d.known = min(d.known, len(d.names))
}

// leave closes what is open.
func (d *descent) leave() {
	for _, dir := range d.open {
		_ = dir.Close()
	}
	d.open = nil
}
