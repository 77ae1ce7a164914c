package bash

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// defaultSpillDir is below the directory for temporary files, which other users write to, too: so its name contains the
// user.
func defaultSpillDir() string {
	return filepath.Join(os.TempDir(), "loopbus-output-"+strconv.Itoa(os.Getuid()))
}

// SpillDir creates the directory for long outputs, for this user only, if it does not exist, and returns its name. An
// empty name selects a directory of the user's own below [os.TempDir]; it is an error if that belongs to another user
// or is writable by others.
func SpillDir(dir string) (string, error) {
	own := dir == ""
	if own {
		dir = defaultSpillDir()
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make the directory for outputs: %w", err)
	}
	look := os.Stat
	if own {
		look = os.Lstat // another user may have planted a link of that name
	}
	info, err := look(dir)
	switch {
	case err != nil:
		return "", fmt.Errorf("directory for outputs: %w", err)
	case !info.IsDir():
		return "", fmt.Errorf("directory for outputs: %s is something else", dir)
	case own && (!OwnedByUser(info) || info.Mode().Perm()&0o022 != 0):
		return "", fmt.Errorf("directory for outputs: %s belongs to somebody else, or can be written by others; remove it "+
			"or choose another one", dir)
	}
	return dir, nil
}
