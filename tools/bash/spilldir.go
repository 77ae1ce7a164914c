package bash

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// defaultSpillDir is below the directory for temporary files, where others write, too: so it names the user.
func defaultSpillDir() string {
	return filepath.Join(os.TempDir(), "loopbus-output-"+strconv.Itoa(os.Getuid()))
}

// SpillDir makes the directory that long outputs are kept in, if it is not there, for this user only, and returns its
// name. The default, for an empty name, is one of the user's own below [os.TempDir]; it is an error if that belongs to
// somebody else or can be written by others.
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
		look = os.Lstat // a link of that name is somebody's trap
	}
	info, err := look(dir)
	switch {
	case err != nil:
		return "", fmt.Errorf("directory for outputs: %w", err)
	case !info.IsDir():
		return "", fmt.Errorf("directory for outputs: %s is something else", dir)
	case own && (!ours(info) || info.Mode().Perm()&0o022 != 0):
		return "", fmt.Errorf("directory for outputs: %s belongs to somebody else, or can be written by others; remove it "+
			"or choose another one", dir)
	}
	return dir, nil
}
