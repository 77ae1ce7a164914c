package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/loopbus/loopbus/schemas"
)

// lockDir creates dir, marks it and locks it for this server. nats-server itself would let a second server use dir, and
// the two would destroy the streams. The system releases the lock when the file is closed or the process ends. The mark
// stays.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store directory: %w", err)
	}
	if err := checkMark(dir); err != nil {
		return nil, err
	}
	f, err := openExclusive(filepath.Join(dir, schemas.StoreMark))
	if err != nil {
		return nil, fmt.Errorf("store directory %s is in use by another server, or cannot be locked: %w", dir, err)
	}
	return f, nil
}

// streamsDir is the folder of the store directory in which nats-server stores the streams.
const streamsDir = "jetstream"

// checkMark refuses a directory that has streams but no mark: this program did not write them. In a workspace a tool
// could have written them, but tools cannot write the mark.
func checkMark(dir string) error {
	mark := filepath.Join(dir, schemas.StoreMark)
	if _, err := os.Lstat(mark); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, streamsDir)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("store directory %s: it has streams that no server of this program has left: %s is missing; if you "+
		"trust who wrote them, make an empty file of that name", dir, mark)
}
