package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// errChanged reports that a name was replaced between check and use. The caller follows the path again.
var errChanged = errors.New("it has changed while it was opened")

// maxOpen is how many directories of a chain are kept open, so that a ".." need not open its directory again.
const maxOpen = 32

// A chain is a sequence of open directories from an area to a directory in it, each opened in the previous one. Even if
// their names are replaced, a file that is opened in the last one is in the area, and none of them is in a store. Each
// name is looked up in its own directory, because a look-up from the top would take as long as the whole path.
type chain struct {
	area  *area
	names []string
	dirs  []*os.Root // of the names from first on, but for those that are left; the area's own is not among them
	first int
}

// begin returns the chain that consists of an area's own directory. It fails if that directory has become a store.
func begin(a *area) (*chain, error) {
	c := &chain{area: a}
	return c, unmarked(a.root)
}

// last returns the last directory, which the chain continues to own. After more than maxOpen ".." it is opened again.
func (c *chain) last() (*os.Root, error) {
	if len(c.names) > 0 && (len(c.dirs) == 0 || c.first+len(c.dirs) != len(c.names)) {
		names := c.names
		c.close()
		for _, name := range names {
			if err := c.enter(name); err != nil {
				return nil, err
			}
		}
	}
	if len(c.names) == 0 {
		return c.area.root, nil
	}
	return c.dirs[len(c.dirs)-1], nil
}

// enter appends a directory in the last one. It does not follow a link.
func (c *chain) enter(name string) error {
	in, err := c.last()
	if err != nil {
		return err
	}
	// The dot makes the system open the name as a directory: opening a named pipe would wait for its other end.
	dir, err := in.OpenRoot(name + string(filepath.Separator) + ".")
	if err != nil {
		return err
	}
	info, err := dir.Stat(".")
	if err == nil {
		err = has(in, name, info)
	}
	if err == nil && ofProcess(info) {
		err = errPrivate
	}
	if err == nil {
		err = unmarked(dir)
	}
	if err != nil {
		_ = dir.Close() // nothing was written
		return err
	}
	if len(c.dirs) == 0 {
		c.first = len(c.names)
	}
	if len(c.dirs) == maxOpen {
		_ = c.dirs[0].Close()
		c.dirs = slices.Delete(c.dirs, 0, 1)
		c.first++
	}
	c.names, c.dirs = append(c.names, name), append(c.dirs, dir)
	return nil
}

// has checks that a file that was opened by name is in the directory, and not elsewhere because a link was followed.
// While the file is open, no other file can have the same identity.
func has(dir *os.Root, name string, opened fs.FileInfo) error {
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, opened) {
		return errChanged
	}
	return err
}

// leave removes the last directory. It reports whether there was one.
func (c *chain) leave() bool {
	at := len(c.names) - 1
	if at < 0 {
		return false
	}
	if n := len(c.dirs); n > 0 {
		_ = c.dirs[n-1].Close()
		c.dirs = c.dirs[:n-1]
	}
	c.names = c.names[:at]
	return true
}

func (c *chain) close() {
	for _, dir := range c.dirs {
		_ = dir.Close()
	}
	c.names, c.dirs = nil, nil
}

// The reasons why a path inside of the workspace is denied.
var (
	errStore   = errors.New("is the store of a runner, or in one, which tools may not use")
	errMark    = errors.New("would be the mark of a runner's store, which tools may not make")
	errPrivate = errors.New("has credentials of the process that runs the tools, which tools may not use")
)

// unmarked returns errStore for a directory with the mark of a store.
func unmarked(dir *os.Root) error {
	_, err := dir.Lstat(schemas.StoreMark)
	switch {
	case err == nil:
		return errStore
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission): // without permission nothing in it opens
		return nil
	}
	return err
}

// isMark reports whether a new file of this name would be the mark of a store on some file system.
func isMark(name string) bool { return strings.EqualFold(name, schemas.StoreMark) }

// inStore returns an error if a directory, by its real name, is a store or in one. The error is for the person who
// starts a worker, who may have to remove a mark that a command has made. The model is not told the mark's name: it
// could take the file for a forgotten lock.
func inStore(dir string) error {
	for {
		mark := filepath.Join(dir, schemas.StoreMark)
		if _, err := os.Lstat(mark); err == nil {
			return fmt.Errorf("%w. The file %s says so", errStore, mark)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
}
